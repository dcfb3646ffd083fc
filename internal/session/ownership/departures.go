package ownership

import (
	"time"

	"github.com/sandgate/sandgate/internal/lockorder"
)

const (
	// departureLife is how long a departure is remembered.
	departureLife = 10 * time.Minute
	// maxDepartures is how many sessions are remembered as having left.
	maxDepartures = 10_000
)

// Departures are the sessions that have left this node or are on their way to it. A client that
// asks this node for such a session may have an old answer of the directory. It must ask again, and
// not get the error that the session does not exist.
type Departures struct {
	mu   lockorder.Mutex[departuresRank] // guards left; a leaf
	left map[string]departure
}

// departure is a session that has left, or is expected.
type departure struct {
	tenant string
	at     time.Time
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
	for id, entry := range d.left {
		if now.Sub(entry.at) > departureLife {
			delete(d.left, id)
		}
	}
}
