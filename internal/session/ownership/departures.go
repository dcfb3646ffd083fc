package ownership

import (
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/protocol"
)

const (
	// departureLife is how long a departure is remembered.
	departureLife = 10 * time.Minute
	// maxDepartures is how many sessions are remembered as having left.
	maxDepartures = 10_000
	// viewLife is how long its view is in the answers to requests for lists, and maxViews how many
	// views there are. No list takes that long.
	viewLife = 30 * time.Second
	maxViews = 1000
)

// Departures are the sessions that have left this node or are on their way to it. A client that
// asks this node for such a session may have an old answer of the directory. It must ask again, and
// not get the error that the session does not exist.
type Departures struct {
	mu    lockorder.Mutex[departuresRank] // guards all below; a leaf
	left  map[string]departure
	views []viewLeft // the oldest first
}

// departure is a session that has left, or is expected.
type departure struct {
	tenant string
	at     time.Time
}

// viewLeft is the view of a session that has left.
type viewLeft struct {
	departure
	view protocol.Session
}

// departuresRank is the place of Departures.mu in the order of locks of package
// session, which takes it with Manager.mu held.
type departuresRank struct{}

func (departuresRank) Rank() int      { return 90 }
func (departuresRank) String() string { return "Departures.mu" }

// NewDepartures returns an empty list.
func NewDepartures() *Departures { return &Departures{left: map[string]departure{}} }

// MarkLeft adds a session that leaves this node, unless the list has 10,000
// already.
func (d *Departures) MarkLeft(id, tenant string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) < maxDepartures {
		d.left[id] = departure{tenant, time.Now()}
	}
}

// HandedOver adds the view of a session that others find in the blob store from now on.
func (d *Departures) HandedOver(tenant string, view protocol.Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expireViews(time.Now())
	if len(d.views) == maxViews {
		d.views = d.views[1:]
	}
	d.views = append(d.views, viewLeft{departure{tenant, time.Now()}, view})
}

// Views returns the views of the sessions that have left within 30 s and that a caller sees.
func (d *Departures) Views(sees func(tenant, id string) bool) (all []listing.Left) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.expireViews(now)
	for _, v := range d.views {
		if sees(v.tenant, v.view.ID) {
			all = append(all, listing.Left{Session: v.view, AgoMS: now.Sub(v.at).Milliseconds()})
		}
	}
	return all
}

// expireViews removes the views of sessions that have left long ago. Preconditions: mu is held.
func (d *Departures) expireViews(now time.Time) {
	d.views = slices.DeleteFunc(d.views, func(v viewLeft) bool { return now.Sub(v.at) > viewLife })
}

// Expect adds a session that is on its way to this node. undo restores the
// earlier entry.
func (d *Departures) Expect(id, tenant string) (undo func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, there := d.left[id]
	d.left[id] = departure{tenant, time.Now()}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if there {
			d.left[id] = before
		} else {
			delete(d.left, id)
		}
	}
}

// Remove removes a session that this node has now.
func (d *Departures) Remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.left, id)
}

// Tenant returns the tenant of a session in the list, and false for a session that is not in it.
func (d *Departures) Tenant(id string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry, there := d.left[id]
	return entry.tenant, there
}

// Expire removes entries that are older than 10 minutes.
func (d *Departures) Expire(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expireViews(now)
	for id, entry := range d.left {
		if now.Sub(entry.at) > departureLife {
			delete(d.left, id)
		}
	}
}
