package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/protocol"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stores are the blob stores of this machine.
func stores(t *testing.T) map[string]blob.Store {
	t.Helper()
	server := blobtest.Start(t)
	bucket, err := blob.OpenS3(blob.S3Options{
		URL: "s3://" + blobtest.Bucket + "/cluster", Endpoint: server.Endpoint,
		Credentials: server.Credentials,
	})
	check(t, err)
	return map[string]blob.Store{"a folder": folderStore(t, t.TempDir()), "a bucket": bucket}
}

func folderStore(t *testing.T, dir string) blob.Store {
	t.Helper()
	s, err := blob.OpenDir(dir, "n1")
	check(t, err)
	return s
}

// line is a line of the journals of these tests.
type line struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// node is a node with one journal.
type node struct {
	*Archive
	t       *testing.T
	journal *journal.Journal
}

func archiveOf(s Blobs, folder string) *Archive {
	return New(Options{
		Blobs: s, Folder: folder, Keep: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
}

// startNode starts a node with its data in a folder.
func startNode(t *testing.T, s Blobs, name, dir string, maxFile int64) *node {
	t.Helper()
	n := &node{Archive: archiveOf(s, FolderOf(name, "0123")), t: t}
	check(t, n.Prepare(dir, "usage"))
	var err error
	n.journal, err = journal.Open(journal.Options{
		Dir: dir, Name: "usage", MaxFile: maxFile, Keep: 2,
	})
	check(t, err)
	n.AddJournal(n.journal)
	return n
}

// write writes lines with numbers.
func (n *node) write(size int, numbers ...int) {
	n.t.Helper()
	for _, i := range numbers {
		check(n.t, n.journal.Write(n.t.Context(), line{i, strings.Repeat("x", size)}))
	}
}

func (n *node) stop() {
	n.t.Helper()
	check(n.t, n.journal.Close(context.Background()))
}

// readAll returns the numbers of the lines that another node reads, sorted, and what is missing.
func readAll(t *testing.T, s Blobs, q Query) ([]int, []protocol.MissingRecords) {
	t.Helper()
	q.Journal = "usage"
	all := []int{}
	missing, err := archiveOf(s, "reader.1").Read(t.Context(), q, func(text []byte) error {
		var l line
		err := json.Unmarshal(text, &l)
		all = append(all, l.N)
		return err
	})
	check(t, err)
	slices.Sort(all)
	return all, missing
}

func objects(t *testing.T, s Blobs) (all []string) {
	t.Helper()
	check(t, s.Walk(t.Context(), root, func(name string, _ time.Time) error {
		all = append(all, name)
		return nil
	}))
	slices.Sort(all)
	return all
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestRecordsOutliveTheirNode: another node reads each line of a journal once, from several parts and
// files, after restarts with and without an orderly end, and without files that the journal removed.
func TestRecordsOutliveTheirNode(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			const large = 900 << 10 // two in a part
			n := startNode(t, s, "n1", dir, 4*large)
			n.write(10, 1, 2)
			n.Upload(t.Context())
			before := time.Now().UnixMilli()
			got, missing := readAll(t, s, Query{})
			expect(t, "the first lines", got, []int{1, 2})
			if len(missing) != 1 || missing[0].Node != "n1" || missing[0].ToMS != 0 ||
				missing[0].FromMS > before || missing[0].FromMS < before-600_000 {
				t.Errorf("of a node that was killed is missing: %+v", missing)
			}
			got, missing = readAll(t, s, Query{Except: []string{n.Folder()}})
			expect(t, "without the node", got, []int{})
			expect(t, "what is missing then", len(missing), 0)

			n.write(10, 3)
			n.write(large, 4, 5, 6) // parts of one file
			n.Upload(t.Context())
			n.write(10, 7)
			n.Upload(t.Context())
			got, _ = readAll(t, s, Query{})
			expect(t, "the lines in parts", got, []int{1, 2, 3, 4, 5, 6, 7})
			n.write(10, 8)
			n.stop() // killed: nothing uploads the last line

			n = startNode(t, s, "n1", dir, 4*large)
			n.Upload(t.Context())
			got, _ = readAll(t, s, Query{})
			expect(t, "the lines after a restart", got, []int{1, 2, 3, 4, 5, 6, 7, 8})
			n.write(large, 9, 10, 11) // the next file
			n.stop()
			n.Close(t.Context())
			got, missing = readAll(t, s, Query{})
			expect(t, "the lines after the end", got, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
			expect(t, "what is missing after an orderly end", len(missing), 0)

			n = startNode(t, s, "n1", dir, 4*large)
			n.Upload(t.Context())
			_, missing = readAll(t, s, Query{})
			expect(t, "what may be missing of a node that runs again", len(missing), 1)
			n.write(large, 12, 13, 14, 15, 16, 17, 18, 19)
			n.Upload(t.Context())
			if n.journal.Stats().Removed == 0 {
				t.Fatal("the journal has removed no file, so the test proves nothing")
			}
			kept, err := journal.Files(dir, "usage")
			check(t, err)
			var want []int
			for _, f := range kept {
				text, err := os.ReadFile(f)
				check(t, err)
				for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
					var one line
					check(t, json.Unmarshal([]byte(l), &one))
					want = append(want, one.N)
				}
			}
			got, _ = readAll(t, s, Query{})
			expect(t, "the lines of the files that are left", got, want)
			if st := n.journal.Stats(); st.Uploads == 0 || st.UploadsFailed != 0 {
				t.Errorf("the counters are %+v", st)
			}
		})
	}
}

// TestDamagedRecordsAreNamed: a part that is damaged or is not there is missing by name, and the
// others are read.
func TestDamagedRecordsAreNamed(t *testing.T) {
	const large = 900 << 10
	for name, harm := range map[string]func(path string) error{
		"changed": func(path string) error { return os.WriteFile(path, []byte("short"), 0o600) },
		"gone":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := folderStore(t, dir)
			n := startNode(t, s, "n1", t.TempDir(), 64<<20)
			n.write(large, 1, 2, 3, 4, 5)
			n.stop()
			n.Close(t.Context())
			var first string
			for _, o := range objects(t, s) {
				if strings.Contains(o, "-000000000000-") {
					first = o
				}
			}
			check(t, harm(filepath.Join(dir, first)))
			got, missing := readAll(t, s, Query{})
			expect(t, "the lines", got, []int{3, 4, 5})
			if len(missing) != 1 || missing[0].Node != "n1" || missing[0].ToMS == 0 {
				t.Errorf("what is missing: %+v", missing)
			}
			_, missing = readAll(t, s, Query{FromMS: time.Now().Add(2 * skew).UnixMilli()})
			expect(t, "what is missing of a later time", len(missing), 0)
		})
	}
}

// TestRestoredJournals: a node that was restored from a backup under its own or another name does not
// count the lines twice that the blob store has of the original.
func TestRestoredJournals(t *testing.T) {
	s := folderStore(t, t.TempDir())
	dir := t.TempDir()
	n := startNode(t, s, "n1", dir, 64<<20)
	n.write(10, 1, 2)
	n.stop()
	n.Close(t.Context())
	check(t, os.Rename(filepath.Join(dir, "usage.jsonl"), filepath.Join(dir, "usage-1.jsonl")))

	n = startNode(t, s, "n2", dir, 64<<20)
	n.write(10, 3)
	n.Upload(t.Context())
	n.stop()
	files, err := journal.Files(dir, "usage")
	check(t, err)
	expect(t, "the files of the restored node", len(files), 1)
	_, err = os.Stat(filepath.Join(dir, "of-n1.0123", "usage-1.jsonl"))
	check(t, err)
	got, missing := readAll(t, s, Query{})
	expect(t, "the lines of both", got, []int{1, 2, 3})
	expect(t, "nodes of which lines may be missing", missing[0].Node, "n2")
}

// TestOldRecordsAreRemoved: the records of a node that has gone are removed together, and those of a
// node that still stores some are not.
func TestOldRecordsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := folderStore(t, dir)
	for _, name := range []string{"n1", "n2"} {
		n := startNode(t, s, name, t.TempDir(), 64<<20)
		n.write(10, 1)
		n.stop()
		n.Close(t.Context())
	}
	long := time.Now().Add(-3 * time.Hour)
	for _, o := range objects(t, s) {
		if strings.Contains(o, "/n1.") || !strings.HasSuffix(o, "/"+alive) {
			check(t, os.Chtimes(filepath.Join(dir, o), long, long))
		}
	}
	check(t, Sweep(t.Context(), s, time.Now().Add(-time.Hour)))
	got, _ := readAll(t, s, Query{})
	expect(t, "the lines that are left", got, []int{1})
	for _, o := range objects(t, s) {
		if strings.Contains(o, "/n1.") {
			t.Errorf("%s is left", o)
		}
	}
}

// away is a blob store that does not answer.
type away struct{ Blobs }

func (away) Walk(context.Context, string, func(string, time.Time) error) error {
	return os.ErrDeadlineExceeded
}

// TestReadWithoutStore: a read fails while the blob store does not answer, and names no node instead.
func TestReadWithoutStore(t *testing.T) {
	_, err := archiveOf(away{}, "n1.1").Read(t.Context(), Query{Journal: "usage"},
		func([]byte) error { return nil })
	if err == nil {
		t.Error("a read without a store succeeds")
	}
}
