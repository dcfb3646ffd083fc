package migrate

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of lists of parked sessions.
const (
	// maxParked is how many parked sessions of a tenant are listed. A list of more is Unavailable.
	maxParked = 20_000
	// maxView is the size of a view in bytes.
	maxView = 4 << 20
	// viewReads is how many views are read at a time.
	viewReads = 16
	// maxCachedViews is how many views a node keeps.
	maxCachedViews = 20_000
	// viewSettles is how old a view has to be before it is kept: a store may have times in seconds.
	viewSettles = 3 * time.Second
)

// viewCache has the views that were read before. Its zero value is ready for use.
type viewCache struct {
	mu  sync.Mutex // guards all below; a leaf
	all map[string]cachedView
}

type cachedView struct {
	changed time.Time
	view    protocol.Session
}

// get returns a view of an object that was changed last at a time.
func (c *viewCache) get(name string, changed time.Time) (protocol.Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, there := c.all[name]
	return v.view, there && v.changed.Equal(changed)
}

// put keeps a view, unless the object may have been changed again at the same time.
func (c *viewCache) put(name string, changed time.Time, v protocol.Session) {
	if time.Since(changed) < viewSettles {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]cachedView{}
	}
	for other := range c.all { // in random order
		if len(c.all) < maxCachedViews {
			break
		}
		delete(c.all, other)
	}
	c.all[name] = cachedView{changed, v}
}

// Views lists a tenant's sessions in the store, in no order. It reads only the views that have changed
// since it last read them. Errors: Unavailable for more than 20,000.
func (b *Store) Views(ctx context.Context, tenant string) ([]protocol.Session, error) {
	type object struct {
		name    string
		changed time.Time
	}
	var objects []object
	err := b.Blobs.Walk(ctx, ViewFolder(tenant), func(name string, changed time.Time) error {
		if len(objects) == maxParked {
			return fault.New(fault.Unavailable, "session.parked",
				"the tenant has more than %d parked sessions, which is too many for a list", maxParked)
		}
		objects = append(objects, object{name, changed})
		return nil
	})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards all and err
	var all []protocol.Session
	var work sync.WaitGroup
	turns := make(chan struct{}, viewReads)
	for _, o := range objects {
		if v, known := b.views.get(o.name, o.changed); known {
			mu.Lock()
			all = append(all, v)
			mu.Unlock()
			continue
		}
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			v, there, rerr := b.readView(ctx, o.name)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case rerr != nil:
				err = rerr
			case there:
				b.views.put(o.name, o.changed, v)
				all = append(all, v)
			}
		})
	}
	work.Wait()
	return all, err
}

// readView reads a view. It is not there if the session was adopted meanwhile.
func (b *Store) readView(ctx context.Context, name string) (v protocol.Session, there bool,
	err error,
) {
	r, err := b.Blobs.Get(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, err
	}
	defer func() { _ = r.Close() }()
	if err := json.NewDecoder(io.LimitReader(r, maxView)).Decode(&v); err != nil {
		return v, false, &fault.Error{
			Kind: fault.Unavailable, Op: "session.parked", Err: err,
			Message: "the view of a parked session cannot be read",
		}
	}
	return v, true, nil
}

// Parked lists the principal's sessions in the blob store: a page of them, or all of them without a
// limit.
func (m *Migrator) Parked(ctx context.Context, p noderpc.Principal, r protocol.SessionQuery) (
	protocol.SessionList, error,
) {
	all := protocol.SessionList{Sessions: []protocol.Session{}}
	q, err := listing.Parse(r)
	if err != nil || m.cfg.Blobs == nil {
		return all, err
	}
	views, err := m.objects.Views(ctx, p.Tenant)
	if err != nil {
		return all, err
	}
	for _, v := range views {
		// A session that is hibernated at the end of its lifetime stays.
		ended := v.OnExpiry == "" && v.ExpiresMS != 0 &&
			time.Now().After(time.UnixMilli(v.ExpiresMS))
		if p.Sees(p.Tenant, v.ID) && !ended {
			all.Sessions = append(all.Sessions, v)
		}
	}
	if r.Limit == 0 { // an earlier gateway
		return all, nil
	}
	return q.Page(all.Sessions, false), nil
}
