package blob

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// agreement has the mark on which the nodes of a cluster have agreed.
type agreement struct {
	mu   sync.Mutex // guards mark
	mark string
}

func (a *agreement) agree(_ context.Context, proposed string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mark == "" {
		a.mark = proposed
	}
	return a.mark, nil
}

// TestMarked: a folder that is not the cluster's is refused, at the first use and when it is unmounted
// later, also after the directory has lost the mark.
func TestMarked(t *testing.T) {
	ctx := t.Context()
	shared, elsewhere := t.TempDir(), t.TempDir()
	a := &agreement{}
	memory := map[string]string{}
	open := func(dir, node string) *Marked {
		store, err := OpenDir(dir, node)
		if err != nil {
			t.Fatal(err)
		}
		return NewMarked(store, MarkOptions{
			Known: memory[node], Agree: a.agree,
			Remember: func(mark string) error { memory[node] = mark; return nil },
		})
	}
	put := func(m *Marked) error {
		return m.Put(ctx, "x", func(w io.Writer) error {
			_, err := io.WriteString(w, "text")
			return err
		})
	}
	n1, n2 := open(shared, "n1"), open(shared, "n2")
	if err := put(n1); err != nil {
		t.Fatal(err)
	}
	r, err := n2.Get(ctx, "x")
	if err != nil {
		t.Fatalf("another node of the cluster: %v", err)
	}
	_ = r.Close()
	if err := put(open(elsewhere, "n3")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a new node with another folder: %v", err)
	}
	a.mark = "" // the directory has lost its data
	if err := put(open(elsewhere, "n1")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a node whose folder is not mounted, with an empty directory: %v", err)
	}
	if left, err := filepath.Glob(elsewhere + "/*"); err != nil || len(left) > 0 {
		t.Errorf("in the other folder is %v", left)
	}
	if err := os.Rename(filepath.Join(shared, markName), filepath.Join(shared, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := put(n1); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a folder that was unmounted: %v", err)
	}
	if err := n1.Walk(ctx, ".", nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a list of a folder that was unmounted: %v", err)
	}
	moved := shared + "-away"
	if err := os.Rename(shared, moved); err != nil {
		t.Fatal(err)
	}
	if err := put(n1); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a folder that is away: %v", err)
	}
	if err := os.Rename(moved, shared); err != nil {
		t.Fatalf("the folder was made again: %v", err)
	}
	if err := os.Rename(filepath.Join(shared, "gone"), filepath.Join(shared, markName)); err != nil {
		t.Fatal(err)
	}
	if err := put(n1); err != nil {
		t.Errorf("a folder that is mounted again: %v", err)
	}
}

// TestMarkRace: of nodes that use a new store at the same time, all agree on one mark.
func TestMarkRace(t *testing.T) {
	dir := t.TempDir()
	a := &agreement{}
	var work sync.WaitGroup
	for range 8 {
		store, err := OpenDir(dir, "n")
		if err != nil {
			t.Fatal(err)
		}
		m := NewMarked(store, MarkOptions{
			Agree: a.agree, Remember: func(string) error { return nil },
		})
		work.Go(func() {
			for m.look(t.Context()) != nil && t.Context().Err() == nil {
			}
		})
	}
	work.Wait()
	if m := NewMarked(must(OpenDir(dir, "n")), MarkOptions{}); must(m.read(t.Context())) != a.mark {
		t.Error("the store has another mark than the directory")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
