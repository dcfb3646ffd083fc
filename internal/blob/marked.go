package blob

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// markName is the object with the mark of the cluster whose store it is.
	markName = "cluster"
	// markEvery is how long a mark that was read in a bucket counts. A folder can be unmounted at any
	// moment, and a look there is cheap: each use of it looks.
	markEvery = 5 * time.Second
	// maxMark is the maximum length of a mark in bytes.
	maxMark = 64
)

// MarkOptions say which mark a store must have.
type MarkOptions struct {
	// Known is the mark that the node has seen in the store before; empty for none.
	Known string
	// Agree returns the mark that the cluster has agreed on. If there is none, it is the proposed one.
	// Nil means that the known mark counts.
	Agree func(ctx context.Context, proposed string) (string, error)
	// Remember keeps the mark for the next start.
	Remember func(mark string) error
}

// Marked is a store that is used only while it has the mark of its cluster. A folder that is not
// mounted on one node is an empty folder: without the mark the node would put sessions there, and no
// other node would find them.
type Marked struct {
	store Store
	o     MarkOptions
	every time.Duration // how long a look counts

	mu    sync.Mutex // guards all below; held over a look at the mark
	known string
	until time.Time // the last look counts until then
}

// NewMarked returns a store that checks the mark of another one. The first use of a cluster's first
// store writes the mark.
func NewMarked(s Store, o MarkOptions) *Marked {
	m := &Marked{store: s, o: o, every: markEvery, known: o.Known}
	if _, folder := s.(*Dir); folder {
		m.every = 0
	}
	return m
}

// look checks that the store has the mark of the cluster. Errors: Unavailable, and the errors of Get.
func (m *Marked) look(ctx context.Context) error {
	const op = "blob.mark"
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.until) {
		return nil
	}
	found, err := m.read(ctx)
	if err != nil {
		return err
	}
	want := m.known
	if want != "" && m.until.IsZero() && m.o.Agree != nil {
		_, _ = m.o.Agree(ctx, want) // the directory may have lost it, and need not answer
	}
	if want == "" {
		proposed := found
		if proposed == "" {
			proposed = random()
		}
		if want, err = m.o.Agree(ctx, proposed); err != nil {
			return err
		}
		if found == "" && want == proposed {
			// This is the first store of the cluster, and this node is the first to use it.
			if err := m.store.Put(ctx, markName, func(w io.Writer) error {
				_, err := io.WriteString(w, want)
				return err
			}); err != nil {
				return err
			}
			found = want
		}
	}
	if found != want {
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: 5,
			Message: "cluster.blobs is not the store of this cluster: it lacks the object " + markName +
				" of the others; is the folder mounted?",
		}
	}
	if m.known == "" {
		if err := m.o.Remember(want); err != nil {
			return err
		}
		m.known = want
	}
	m.until = time.Now().Add(m.every)
	return nil
}

// read returns the mark in the store; empty for none.
func (m *Marked) read(ctx context.Context) (string, error) {
	r, err := m.store.Get(ctx, markName)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxMark))
	return strings.TrimSpace(string(text)), errors.Join(err, r.Close())
}

// Put implements Store.
func (m *Marked) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	return m.store.Put(ctx, name, write)
}

// Get implements Store.
func (m *Marked) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := m.look(ctx); err != nil {
		return nil, err
	}
	return m.store.Get(ctx, name)
}

// Remove implements Store.
func (m *Marked) Remove(ctx context.Context, name string) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	return m.store.Remove(ctx, name)
}

// Walk implements Store.
func (m *Marked) Walk(ctx context.Context, folder string,
	f func(name string, changed time.Time) error,
) error {
	if err := m.look(ctx); err != nil {
		return err
	}
	return m.store.Walk(ctx, folder, f)
}

// Tidy implements Store.
func (m *Marked) Tidy(ctx context.Context, before time.Time) (int, error) {
	if err := m.look(ctx); err != nil {
		return 0, err
	}
	return m.store.Tidy(ctx, before)
}
