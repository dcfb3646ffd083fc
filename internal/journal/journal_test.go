package journal

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

type entry struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustOpen(t *testing.T, o Options) *Journal {
	t.Helper()
	o.Name = "test"
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(deadline(t)); err != nil {
			t.Error(err)
		}
	})
	return j
}

// read returns all entries of all files. It fails the test for an invalid line.
func read(t *testing.T, dir string) (all []entry, torn int) {
	t.Helper()
	files, err := Files(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, MaxLine)
		for lines.Scan() {
			var e entry
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				torn++
				continue
			}
			all = append(all, e)
		}
	}
	return all, torn
}

// TestLinesAreWholeAndInOrder: several goroutines write at once. Each one's lines are complete and
// in order, also over rotations. The number of files is bounded, and other users cannot read them.
func TestLinesAreWholeAndInOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, Options{Dir: dir, MaxFile: 4 << 10, Keep: 1000})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 200 {
				if i%10 == 0 {
					if err := j.Write(deadline(t),
						entry{N: i, Text: fmt.Sprint("w", w, "\n\x1b[31m")}); err != nil {
						t.Error(err)
					}
					continue
				}
				j.Append(entry{N: i, Text: fmt.Sprint("w", w, "\n\x1b[31m")})
			}
		})
	}
	wg.Wait()
	if err := j.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	all, torn := read(t, dir)
	next := map[string]int{}
	for _, e := range all {
		if e.N != next[e.Text] {
			t.Fatalf("%q: %d, want %d", e.Text, e.N, next[e.Text])
		}
		next[e.Text]++
	}
	s := j.Stats()
	if torn > 0 || len(all) != 1600 || s.Lines != 1600 || s.Dropped != 0 || s.Rotations < 5 {
		t.Errorf("%d lines, %d torn, %+v", len(all), torn, s)
	}
	files, _ := Files(dir, "test")
	for _, f := range append(files, dir) {
		fi, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", f, fi.Mode())
		}
		if !fi.IsDir() && fi.Size() > 4<<10 {
			t.Errorf("%s has %d bytes", f, fi.Size())
		}
	}
}

func TestOldestFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, Options{Dir: dir, MaxFile: 1 << 10, Keep: 3})
	for i := range 300 {
		if err := j.Write(deadline(t), entry{N: i, Text: strings.Repeat("x", 50)}); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := Files(dir, "test")
	all, _ := read(t, dir)
	s := j.Stats()
	if len(files) != 4 || s.Removed != s.Rotations-3 || s.Removed == 0 {
		t.Errorf("%d files, %+v", len(files), s)
	}
	for i, e := range all {
		if e.N != 300-len(all)+i {
			t.Fatalf("entry %d of %d is %d", i, len(all), e.N)
		}
	}
}

// TestCrashTearsOneLine: a line that a crash cut short does not corrupt other lines.
func TestCrashTearsOneLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "test.jsonl"), []byte("{\"n\":1}\n{\"n\":2,\"te"),
		0o600); err != nil {
		t.Fatal(err)
	}
	j := mustOpen(t, Options{Dir: dir})
	if err := j.Write(deadline(t), entry{N: 3}); err != nil {
		t.Fatal(err)
	}
	all, torn := read(t, dir)
	if torn != 1 || len(all) != 2 || all[1].N != 3 {
		t.Errorf("%v, %d torn", all, torn)
	}
}

// TestFullDiskCostsLinesAndNothingElse fills a small filesystem that holds a journal, and then
// frees space.
func TestFullDiskCostsLinesAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal("this takes root: ", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	j := mustOpen(t, Options{Dir: dir, MaxFile: 1 << 20})
	long := strings.Repeat("x", 1000)
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = j.Write(deadline(t), entry{N: n, Text: long})
	}
	if !fault.Is(err, fault.DiskFull) || n > 70 {
		t.Fatalf("after %d lines: %v", n, err)
	}
	began := time.Now()
	for range 1000 {
		j.Append(entry{N: -1, Text: long})
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("1000 lines that cannot be written took %s", took)
	}
	// All lines are dropped before there is space, however late the writer runs.
	for wait := deadline(t); j.Stats().Dropped < 1001; <-time.After(time.Millisecond) {
		if wait.Err() != nil {
			t.Fatalf("it still waits for a full disk: %+v", j.Stats())
		}
	}
	// The file ends with its last complete line, and there is space again.
	if err := os.WriteFile(filepath.Join(dir, "test-0.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=256k"); err != nil {
		t.Fatal(err)
	}
	if err := j.Write(deadline(t), entry{N: n}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	all, torn := read(t, dir)
	s := j.Stats()
	if torn > 0 || all[len(all)-1].N != n || s.Dropped < 900 || int(s.Lines) != len(all) {
		t.Errorf("%d lines, %d torn, %+v", len(all), torn, s)
	}
}

func TestBounds(t *testing.T) {
	j := mustOpen(t, Options{Dir: t.TempDir()})
	if err := j.Write(deadline(t), entry{Text: strings.Repeat("x", MaxLine)}); !fault.Is(err,
		fault.TooLarge) {
		t.Errorf("a long line: %v", err)
	}
	if err := j.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := j.Write(deadline(t), entry{}); !fault.Is(err, fault.Restarting) {
		t.Errorf("after the end: %v", err)
	}
	if s := j.Stats(); s.Dropped != 2 {
		t.Errorf("%+v", s)
	}
}
