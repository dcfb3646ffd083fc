package migrate

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// countedBlobs counts the objects that are read, and makes all objects an hour old.
type countedBlobs struct {
	Blobs
	reads atomic.Int64
	shift atomic.Int64 // seconds
}

func (c *countedBlobs) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	c.reads.Add(1)
	return c.Blobs.Get(ctx, name)
}

func (c *countedBlobs) Walk(
	ctx context.Context, folder string, f func(string, time.Time) error,
) error {
	return c.Blobs.Walk(ctx, folder, func(name string, changed time.Time) error {
		return f(name, changed.Add(-time.Hour+time.Duration(c.shift.Load())*time.Second))
	})
}

// TestAllParkedAreListed: a tenant with more parked sessions than a page has gets all of them, in
// pages. A list reads only the views that have changed.
func TestAllParkedAreListed(t *testing.T) {
	dir, err := blob.OpenDir(t.TempDir(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	blobs := &countedBlobs{Blobs: dir}
	m := New(Config{Blobs: blobs, Stats: nil})
	const sessions = protocol.MaxList + 201
	p := noderpc.Principal{Tenant: "a"}
	for i := range sessions {
		id := fmt.Sprintf("s_%05d", i)
		if err := m.objects.PutJSON(t.Context(), ViewName(p.Tenant, id), protocol.Session{
			ID: id, State: "hibernated", CreatedMS: int64(i),
		}); err != nil {
			t.Fatal(err)
		}
	}
	list := func() map[string]bool {
		t.Helper()
		seen := map[string]bool{}
		q := protocol.SessionQuery{Limit: 500}
		for {
			l, err := m.Parked(t.Context(), p, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range l.Sessions {
				seen[s.ID] = true
			}
			if q.Cursor = l.NextCursor; q.Cursor == "" {
				return seen
			}
		}
	}
	if got := list(); len(got) != sessions {
		t.Errorf("%d of %d are listed", len(got), sessions)
	}
	if n := blobs.reads.Load(); n != sessions {
		t.Errorf("%d views were read in three lists", n)
	}
	blobs.reads.Store(0)
	list()
	if n := blobs.reads.Load(); n != 0 {
		t.Errorf("%d views were read again", n)
	}
	blobs.shift.Store(1) // all objects were changed
	if l, err := m.Parked(t.Context(), p, protocol.SessionQuery{}); err != nil ||
		len(l.Sessions) != sessions {
		t.Errorf("without a limit: %d sessions, %v", len(l.Sessions), err)
	}
	if n := blobs.reads.Load(); n != sessions {
		t.Errorf("%d changed views were read", n)
	}
	if err := dir.Remove(t.Context(), path.Join(ViewFolder(p.Tenant), "s_00000")); err != nil {
		t.Fatal(err)
	}
	if got := list(); len(got) != sessions-1 || got["s_00000"] {
		t.Errorf("an adopted session is listed, of %d", len(got))
	}
}

// manyBlobs is a store with a number of views of parked sessions.
type manyBlobs struct {
	Blobs
	views int
}

func (m manyBlobs) Walk(_ context.Context, folder string, f func(string, time.Time) error) error {
	for i := range m.views {
		if err := f(fmt.Sprintf("%s/s_%05d", folder, i), time.Now()); err != nil {
			return err
		}
	}
	return nil
}

func (manyBlobs) Get(_ context.Context, name string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(fmt.Sprintf(`{"id":%q}`, path.Base(name)))), nil
}

// TestTooManyParked: a list of more parked sessions than a list may have is unavailable, also for one
// page, and says why.
func TestTooManyParked(t *testing.T) {
	list := func(views int) (protocol.SessionList, error) {
		m := New(Config{Blobs: manyBlobs{views: views}, Stats: nil})
		return m.Parked(t.Context(), noderpc.Principal{Tenant: "a"}, protocol.SessionQuery{Limit: 5})
	}
	if l, err := list(maxParked); err != nil || len(l.Sessions) != 5 {
		t.Errorf("as many as may be: %d sessions, %v", len(l.Sessions), err)
	}
	l, err := list(maxParked + 1)
	if !fault.Is(err, fault.Unavailable) || len(l.Sessions) != 0 || !strings.Contains(err.Error(),
		"the tenant has more than 20000 parked sessions, which is too many for a list") {
		t.Errorf("one more: %d sessions, %v", len(l.Sessions), err)
	}
}
