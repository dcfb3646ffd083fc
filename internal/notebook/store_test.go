package notebook

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
	wire "github.com/sandgate/sandgate/protocol/notebook"
)

// rig is a store with a clock that the test sets.
type rig struct {
	*Store
	t     *testing.T
	clock time.Time
}

func open(t *testing.T, dir string) *rig {
	t.Helper()
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Store: s, t: t, clock: time.Unix(1_800_000_000, 0)}
	s.now = func() time.Time { return r.clock }
	return r
}

// save writes a file as a client does.
func (r *rig) save(o Owner, name, text string) {
	r.t.Helper()
	err := r.Tee("test", o, name, strings.NewReader(text), func(body io.Reader) (string, error) {
		_, err := io.Copy(io.Discard, body)
		return "/home/user/" + name, err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) only(tenant string) wire.Notebook {
	r.t.Helper()
	l, _ := r.List(tenant, wire.Query{})
	if len(l.Notebooks) != 1 {
		r.t.Fatalf("%d notebooks: %+v", len(l.Notebooks), l)
	}
	return l.Notebooks[0]
}

// texts returns the texts of a notebook's versions, newest first.
func (r *rig) texts(tenant, id string) (all []string) {
	r.t.Helper()
	vs, err := r.Versions(tenant, wire.Ref{Notebook: id})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range vs.Versions {
		text, offset := "", int64(0)
		for {
			p, err := r.Read(tenant, wire.Read{Notebook: id, Version: v.ID, Offset: offset})
			if err != nil {
				r.t.Fatal(err)
			}
			if text += p.Text; p.Next == 0 {
				break
			}
			offset = p.Next
		}
		all = append(all, text)
	}
	return all
}

// files returns how many files there are that are not records.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != recordFile {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var ann = Owner{Tenant: "a", Subject: "ann", Session: "s_1"}

// TestNotebookVersions: saves within five minutes are one version, unless it has a name or most of
// the text is gone. All versions are the same after a restart.
func TestNotebookVersions(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	r.save(ann, "n.ipynb", "one")
	r.clock = r.clock.Add(4 * time.Minute)
	r.save(ann, "n.ipynb", "one two")
	r.clock = r.clock.Add(2 * time.Minute)
	r.save(ann, "n.ipynb", "one two three")
	r.save(ann, "n.ipynb", "1") // an accident
	id := r.only("a").ID
	vs, _ := r.Versions("a", wire.Ref{Notebook: id})
	name := wire.Naming{Notebook: id, Version: vs.Versions[0].ID, Name: "short"}
	if _, err := r.Name("a", name); err != nil {
		t.Fatal(err)
	}
	r.save(ann, "n.ipynb", "2")
	r.save(ann, "text.txt", "no notebook")
	want := fmt.Sprint([]string{"2", "1", "one two three", "one two"})
	for _, r := range []*rig{r, open(t, dir)} {
		if got := fmt.Sprint(r.texts("a", id)); got != want {
			t.Errorf("the versions are %v, want %v", got, want)
		}
		n := r.only("a")
		if n.Versions != 4 || n.Path != "/home/user/n.ipynb" || n.Session != "s_1" || n.Bytes != 1 {
			t.Errorf("the notebook is %+v", n)
		}
		if n := files(t, dir); n != 4 {
			t.Errorf("there are %d files of 4 versions", n)
		}
	}
}

// TestNotebookOfAnotherTenant: a notebook of another tenant is not there.
func TestClosedVersionIsKept(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	r.save(ann, "n.ipynb", "before")
	id := r.only("a").ID
	vs, _ := r.Versions("a", wire.Ref{Notebook: id})
	closed := wire.Naming{Notebook: id, Version: vs.Versions[0].ID, Closed: true}
	if _, err := r.Name("a", closed); err != nil {
		t.Fatal(err)
	}
	closed.Closed = false // it stays closed
	if _, err := r.Name("a", closed); err != nil {
		t.Fatal(err)
	}
	r.save(ann, "n.ipynb", "before") // the same text is no new version
	r = open(t, dir)
	r.save(ann, "n.ipynb", "restored")
	r.save(ann, "n.ipynb", "restored and edited")
	want := fmt.Sprint([]string{"restored and edited", "before"})
	if got := fmt.Sprint(r.texts("a", id)); got != want {
		t.Errorf("the versions are %v, want %v", got, want)
	}
}

func TestNotebookOfAnotherTenant(t *testing.T) {
	r := open(t, t.TempDir())
	r.save(ann, "n.ipynb", "secret")
	id := r.only("a").ID
	vs, _ := r.Versions("a", wire.Ref{Notebook: id})
	_, e1 := r.Versions("b", wire.Ref{Notebook: id})
	_, e2 := r.Read("b", wire.Read{Notebook: id, Version: vs.Versions[0].ID})
	_, e3 := r.Name("b", wire.Naming{Notebook: id, Version: vs.Versions[0].ID, Name: "x"})
	for _, err := range []error{e1, e2, e3, r.Delete("b", wire.Ref{Notebook: id})} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("another tenant gets %v", err)
		}
	}
	if l, _ := r.List("b", wire.Query{}); len(l.Notebooks) != 0 {
		t.Errorf("another tenant lists %v", l)
	}
	if l, _ := r.List("a", wire.Query{Session: "s_2"}); len(l.Notebooks) != 0 {
		t.Errorf("another session lists %v", l)
	}
	r.DropSession("b", "s_1")
	r.only("a")
	r.DropSession("a", "s_1")
	if l, _ := r.List("a", wire.Query{}); len(l.Notebooks) != 0 || files(t, r.dir) != 0 {
		t.Errorf("a deleted session left %v", l)
	}
}

// TestNotebookWriteFails: a write that fails stores nothing, and a notebook that is too large is only
// in its session.
func TestNotebookWriteFails(t *testing.T) {
	r := open(t, t.TempDir())
	r.save(ann, "n.ipynb", "good")
	broken := errors.New("the sandbox is gone")
	err := r.Tee("test", ann, "n.ipynb", strings.NewReader("half"), func(body io.Reader) (string, error) {
		_, _ = io.Copy(io.Discard, body)
		return "", broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	r.save(ann, "n.ipynb", strings.Repeat("x", wire.MaxBytes+1))
	if got := r.texts("a", r.only("a").ID); len(got) != 1 || got[0] != "good" || files(t, r.dir) != 1 {
		t.Errorf("the versions are %v, in %d files", len(got), files(t, r.dir))
	}
}

// TestNotebooksAreBounded: versions, versions with a name, notebooks and their bytes have limits. The
// oldest versions without a name make room.
func TestNotebooksAreBounded(t *testing.T) {
	r := open(t, t.TempDir())
	r.count = tenantlimit.Row{Tenant: 2, All: 3, Things: "notebooks"}
	r.space = tenantlimit.Row{Tenant: 4, All: 6, Things: "MiB"}
	for i := range wire.MaxVersions + 3 {
		r.save(ann, "n.ipynb", fmt.Sprint("version ", i))
		r.clock = r.clock.Add(newVersion)
	}
	id := r.only("a").ID
	all := r.texts("a", id)
	if len(all) != wire.MaxVersions || all[len(all)-1] != "version 3" {
		t.Errorf("%d versions, the oldest is %q", len(all), all[len(all)-1])
	}
	vs, _ := r.Versions("a", wire.Ref{Notebook: id})
	for i, v := range vs.Versions[len(vs.Versions)-wire.MaxNamed-1:] {
		_, err := r.Name("a", wire.Naming{Notebook: id, Version: v.ID, Name: "keep"})
		if got := fault.Is(err, fault.Exhausted); got != (i == wire.MaxNamed) {
			t.Fatalf("name %d: %v", i, err)
		}
	}
	// 3 MiB more than once: the versions without a name go, those with a name and the newest stay.
	for i := range 3 {
		r.save(ann, "n.ipynb", strings.Repeat(fmt.Sprint(i), 3<<20))
		r.clock = r.clock.Add(newVersion)
	}
	if got := r.texts("a", id); len(got) != wire.MaxNamed+1 || got[0][0] != '2' {
		t.Errorf("%d versions", len(got))
	}
	r.save(ann, "second.ipynb", "small")
	r.save(ann, "third.ipynb", "one too many")
	if l, _ := r.List("a", wire.Query{}); len(l.Notebooks) != 2 {
		t.Errorf("%d notebooks", len(l.Notebooks))
	}
	// Another tenant has its share.
	r.save(Owner{Tenant: "b", Session: "s_2"}, "n.ipynb", strings.Repeat("b", 2<<20))
	r.only("b")
	if all, own := r.DiskUse("b", ""); all != 2<<20 || own != all {
		t.Errorf("the other tenant uses %d and %d bytes", all, own)
	}
}

// TestNotebooksExpire: a notebook is removed a time after its last save.
func TestNotebooksExpire(t *testing.T) {
	r := open(t, t.TempDir())
	r.save(ann, "old.ipynb", "old")
	r.clock = r.clock.Add(kept / 2)
	r.save(ann, "young.ipynb", "young")
	r.clock = r.clock.Add(kept/2 + time.Hour)
	r.save(ann, "young.ipynb", "young 2")
	if n := r.only("a"); n.Path != "/home/user/young.ipynb" || files(t, r.dir) != 2 {
		t.Errorf("left are %+v and %d files", n, files(t, r.dir))
	}
}

// TestNotebookPartsAreText: the parts of a text end between characters.
func TestNotebookPartsAreText(t *testing.T) {
	r := open(t, t.TempDir())
	for _, text := range []string{
		"", strings.Repeat("x", wire.MaxPart), "x" + strings.Repeat("ü", wire.MaxPart),
		"xx" + strings.Repeat("語", wire.MaxPart), strings.Repeat("😀", wire.MaxPart/4) + "!",
		strings.Repeat("\xff", wire.MaxPart+9),
	} {
		r.clock = r.clock.Add(newVersion)
		r.save(ann, "n.ipynb", text)
		if got := r.texts("a", r.only("a").ID)[0]; got != text {
			t.Errorf("%d bytes came back as %d", len(text), len(got))
		}
	}
}

// TestNotebookFilesAfterACrash: remains of saves that did not end are removed.
func TestNotebookFilesAfterACrash(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	r.save(ann, "n.ipynb", "good")
	id := r.only("a").ID
	for _, name := range []string{"draft", id + "/text", "nb_new/text"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700),
			os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if got := open(t, dir).texts("a", id); len(got) != 1 || got[0] != "good" || files(t, dir) != 1 {
		t.Errorf("the versions are %v, in %d files", got, files(t, dir))
	}
}
