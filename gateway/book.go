package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/tenant"
)

// Book keeps run tickets and counts their uses. The gateways of a cluster share
// one.
type Book interface {
	// Add lays a ticket down, unless as many as most are out: then it is Exhausted.
	Add(ctx context.Context, g tenant.Grant, most int) error
	// Find returns the thing of a ticket that is good, or has a run that goes on;
	// nil is none.
	Find(ctx context.Context, id string) ([]byte, error)
	// End ends a ticket, and reports whether it was there.
	End(ctx context.Context, id, origin string) (bool, error)
	// Begin uses a ticket once and holds a place among its runs, for life unless
	// Leave gives it back before.
	Begin(ctx context.Context, id, origin, place string, life time.Duration) (tenant.Verdict, time.Duration, error)
	Leave(ctx context.Context, id, origin, place string) error
}

// Origins are those of the pages that the tickets of a Book are for.
type Origins interface {
	// Names reports whether a ticket that Find would find is for an origin.
	Names(ctx context.Context, origin string) (bool, error)
	// Framing returns the origins for whose pages there are tickets to embed.
	Framing(ctx context.Context) ([]string, error)
}

// ClusterBook is both, on a server that the gateways of a cluster share.
type ClusterBook interface {
	Book
	Origins
}

// localBook is the book of a gateway that is alone.
type localBook struct {
	now func() time.Time

	mu      sync.Mutex // guards all below; leaf
	m       map[string]*granted
	origins map[string]int // how many tickets name each
	frames  map[string]int // the same for tickets to embed
	soonest time.Time      // no ticket expires before
}

type granted struct {
	tenant.Grant
	expires time.Time
	minute  time.Time // when the present minute of the rate began
	begun   int       // runs of that minute
	places  map[string]struct{}
}

func newLocalBook() *localBook {
	return &localBook{now: time.Now, m: map[string]*granted{}, origins: map[string]int{}, frames: map[string]int{}}
}

// Add is Book's.
func (b *localBook) Add(_ context.Context, g tenant.Grant, most int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep()
	if len(b.m) >= most {
		return fault.New(fault.Exhausted, "gateway.book", "%d run tickets are out", most)
	}
	t := &granted{Grant: g, expires: b.now().Add(g.Life), places: map[string]struct{}{}}
	b.m[g.ID] = t
	b.origins[g.Origin]++
	if g.Embed {
		b.frames[g.Origin]++
	}
	if b.soonest.IsZero() || t.expires.Before(b.soonest) {
		b.soonest = t.expires
	}
	return nil
}

// sweep forgets what has expired, once the first of them has. A ticket whose
// run goes on is kept for that. mu is held.
func (b *localBook) sweep() {
	now := b.now()
	if len(b.m) == 0 || now.Before(b.soonest) {
		return
	}
	b.soonest = time.Time{}
	for _, t := range b.m {
		switch {
		case now.Before(t.expires):
			if b.soonest.IsZero() || t.expires.Before(b.soonest) {
				b.soonest = t.expires
			}
		case len(t.places) == 0:
			b.remove(t)
		}
	}
}

func (b *localBook) remove(t *granted) {
	delete(b.m, t.ID)
	count := func(all map[string]int) {
		if all[t.Origin]--; all[t.Origin] <= 0 {
			delete(all, t.Origin)
		}
	}
	count(b.origins)
	if t.Embed {
		count(b.frames)
	}
}

// Find is Book's.
func (b *localBook) Find(_ context.Context, id string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep()
	t := b.m[id]
	if t == nil || !b.now().Before(t.expires) && len(t.places) == 0 {
		return nil, nil
	}
	return t.Thing, nil
}

// End is Book's.
func (b *localBook) End(_ context.Context, id, _ string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.m[id]
	if t == nil {
		return false, nil
	}
	b.remove(t)
	return true, nil
}

// Begin is Book's. The place is held until it is left: this process is the one
// that leaves it.
func (b *localBook) Begin(_ context.Context, id, _, place string, _ time.Duration) (tenant.Verdict, time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, t := b.now(), b.m[id]
	if t == nil {
		return tenant.Unknown, 0, nil
	}
	if now.Sub(t.minute) >= time.Minute {
		t.minute, t.begun = now, 0
	}
	switch {
	case !now.Before(t.expires):
		return tenant.Over, 0, nil
	case t.Uses == 0:
		return tenant.Used, 0, nil
	case len(t.places) >= t.AtOnce:
		return tenant.Busy, 2 * time.Second, nil
	case t.begun >= t.PerMinute:
		return tenant.Fast, (time.Minute - now.Sub(t.minute)).Truncate(time.Second) + time.Second, nil
	}
	t.Uses--
	t.begun++
	t.places[place] = struct{}{}
	return tenant.Begun, 0, nil
}

// Leave is Book's.
func (b *localBook) Leave(_ context.Context, id, _, place string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.m[id]; t != nil {
		delete(t.places, place)
	}
	// It may be the last that has kept an expired ticket.
	b.soonest = time.Time{}
	b.sweep()
	return nil
}

// Names is Origins'. A ticket that is used up counts: its page is told so.
func (b *localBook) Names(_ context.Context, origin string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep()
	return b.origins[strings.ToLower(origin)] > 0, nil
}

// Framing is Origins'.
func (b *localBook) Framing(context.Context) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep()
	out := make([]string, 0, len(b.frames))
	for origin := range b.frames {
		out = append(out, origin)
	}
	return out, nil
}
