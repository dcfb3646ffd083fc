package migrate

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maintainEvery is how often objects are removed that could not be removed before.
	maintainEvery = 15 * time.Second
	// startLimit bounds how long a start reads the blob store. The directory also says which
	// sessions other nodes have, unless it has lost its data.
	startLimit = 5 * time.Second
	// startParallel is how many sessions a start looks up at a time.
	startParallel = 8
	// disposeLimit is how long the end of a durable session waits for the blob store. After that
	// maintain tries again. maxEnding bounds the sessions that it tries: the sweep removes the
	// checkpoints of further ones when their lifetime is over.
	disposeLimit = 5 * time.Second
	maxEnding    = 10_000
	// sweepEvery is how often a node sweeps the store. Only objects older than sweepAge are removed:
	// no upload takes that long.
	sweepEvery = time.Hour
	sweepAge   = 24 * time.Hour
	sweepLimit = 10 * time.Minute
)

// Start reports the sessions of an earlier process to the directory. It returns the ids of the
// sessions that belong to another node according to the blob store. Preconditions: no other code
// uses the sessions yet.
func (m *Migrator) Start() (superseded []string) {
	if !m.cfg.Owner.HasDirectory() {
		return nil
	}
	all, _ := m.cfg.Sessions.All()
	gone := m.superseded(all)
	for _, s := range all {
		d := s.Describe()
		if gone[d.ID] {
			m.log.Warn("another node has taken a session", "session", d.ID)
			superseded = append(superseded, d.ID)
			continue
		}
		m.cfg.Owner.Resume(d.ID, d.Token, d.Created, d.Expires)
	}
	return superseded
}

// superseded returns the sessions of an earlier process that have a higher token of another node in
// the blob store.
func (m *Migrator) superseded(all []Movable) map[string]bool {
	gone := map[string]bool{}
	if !m.Shared() || len(all) == 0 {
		return gone
	}
	ctx, cancel := context.WithTimeout(m.cfg.Context, startLimit)
	defer cancel()
	var mu sync.Mutex // guards gone
	var work sync.WaitGroup
	turns := make(chan struct{}, startParallel)
	for _, s := range all {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			d := s.Describe()
			a, err := m.objects.Parked(ctx, d.ID)
			taken := err == nil && a.Token > d.Token
			if fault.Is(err, fault.NotFound) && d.Durable {
				var c Checkpoint
				c, err = m.objects.NewestCheckpoint(ctx, d.ID)
				taken = err == nil && c.Token > d.Token && c.Node != m.cfg.Node
			}
			if taken {
				mu.Lock()
				gone[d.ID] = true
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return gone
}

// removeLeftovers removes parked objects of sessions that are on this node. They exist when an
// earlier process ended between two steps of a move. It waits until the directory has confirmed the
// ownership.
func (m *Migrator) removeLeftovers() {
	ctx := m.cfg.Context
	all, _ := m.cfg.Sessions.All()
	for _, s := range all {
		d := s.Describe()
		m.addLeftover(d.ID)
		if m.cfg.Owner.Wait(ctx, d.ID, s.Life().Done()) == nil {
			m.removeLeftover(s)
		}
	}
}

// addLeftover makes maintain remove the parked objects of a session that is on this node.
func (m *Migrator) addLeftover(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leftovers[id] = true
}

// retryLeftovers tries again to remove the objects that removeLeftover could not remove.
func (m *Migrator) retryLeftovers() {
	m.mu.Lock()
	ids := maps.Clone(m.leftovers)
	m.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	all, _ := m.cfg.Sessions.All()
	for _, s := range all {
		if id := s.Describe().ID; ids[id] {
			delete(ids, id)
			m.removeLeftover(s)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range ids { // no longer on this node
		delete(m.leftovers, id)
	}
}

// removeLeftover removes the parked objects of a session that is on this node. It holds the lock of
// the session's objects, so that it does not remove the objects of a move that begins at this
// moment.
func (m *Migrator) removeLeftover(s Movable) {
	ctx, cancel := context.WithTimeout(m.cfg.Context, disposeLimit)
	defer cancel()
	d := s.Describe()
	if d.Uploads.writing.Lock(ctx) != nil {
		return
	}
	defer d.Uploads.writing.Unlock()
	if s.Life().Err() != nil || !m.cfg.Owner.Owns(d.ID) {
		return
	}
	_, err := m.objects.Parked(ctx, d.ID)
	switch {
	case !fault.Is(err, fault.NotFound):
		err = m.objects.RemoveParked(ctx, d.Tenant, d.ID)
	case !m.staysStored(d): // the removal of an adoption has got so far
		err = m.objects.removeView(ctx, d.Tenant, d.ID)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		m.log.Warn("the objects of an interrupted move were not removed", "session", d.ID, "error",
			err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leftovers, d.ID)
}

// Dispose removes the checkpoints of a durable session that has ended. It returns false if that
// failed. The directory must then keep the session, because another node would otherwise take it
// over from its checkpoint. maintain tries again and then removes the session from the directory.
// A mark on the disk makes the next process do the same.
func (m *Migrator) Dispose(s Movable) (done bool) {
	if !m.Shared() {
		return true
	}
	d := s.Describe()
	ctx, cancel := context.WithTimeout(context.Background(), disposeLimit)
	defer cancel()
	owned := m.cfg.Owner.Owns(d.ID)
	err := d.Uploads.writing.Lock(ctx)
	if err == nil {
		defer d.Uploads.writing.Unlock()
	}
	if owned && err == nil {
		if err = m.objects.RemoveSession(ctx, d.Tenant, d.ID); err == nil {
			return true
		}
	}
	m.log.Warn("the copy of a session that has ended is still in the blob store",
		"session", d.ID, "owned", owned, "error", err)
	m.mu.Lock()
	full := len(m.ending) >= maxEnding
	m.mu.Unlock()
	if full {
		return false
	}
	if err := m.cfg.Copies.Mark(d.ID); err != nil {
		m.log.Warn("an ended session is not marked for the next start", "session", d.ID, "error",
			err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending[d.ID] = true
	return false
}

// DisposeLater makes maintain remove the checkpoints of a session that an earlier process left and
// that cannot be recovered.
func (m *Migrator) DisposeLater(id string) error {
	if !m.Shared() {
		return nil
	}
	m.mu.Lock()
	m.ending[id] = false
	m.mu.Unlock()
	return m.cfg.Copies.Mark(id)
}

// ForgetEnded removes a session that has ended from the directory, unless it still has checkpoints.
// maintain removes it then.
func (m *Migrator) ForgetEnded(id string) {
	m.mu.Lock()
	_, ending := m.ending[id]
	m.mu.Unlock()
	if !ending {
		m.cfg.Owner.Forget(id)
	}
}

// maintain removes the checkpoints of ended sessions and the objects of interrupted moves, and sweeps
// the store, until the node closes.
func (m *Migrator) maintain() {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	done := m.cfg.Context.Done()
	next := time.Now().Add(SweepDelay(m.cfg.Node))
	for {
		m.disposeEnded()
		m.retryLeftovers()
		if now := time.Now(); now.After(next) {
			next = now.Add(sweepEvery)
			m.sweep(now)
		}
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

func (m *Migrator) sweep(now time.Time) {
	ctx, cancel := context.WithTimeout(m.cfg.Context, sweepLimit)
	defer cancel()
	if err := m.objects.Sweep(ctx, now.Add(-sweepAge), now); err != nil &&
		m.cfg.Context.Err() == nil {
		m.log.Warn("the blob store was not swept", "error", err)
	}
}

// disposeEnded tries once to remove the checkpoints of each ended session.
func (m *Migrator) disposeEnded() {
	m.mu.Lock()
	ending := maps.Clone(m.ending)
	m.mu.Unlock()
	for id, owned := range ending {
		ctx, cancel := context.WithTimeout(m.cfg.Context, disposeLimit)
		done, err := m.disposeOne(ctx, id, owned)
		cancel()
		if err != nil {
			m.log.Debug("the copy of a session that has ended is still in the blob store",
				"session", id, "error", err)
		}
		if !done {
			continue
		}
		m.mu.Lock()
		delete(m.ending, id)
		m.mu.Unlock()
		if err := m.cfg.Copies.Remove(id); err != nil {
			m.log.Warn("a durable session's folder was not removed", "session", id, "error", err)
		}
	}
}

// disposeOne removes the checkpoints of a session that has ended, and then the session from the
// directory. It is done when the checkpoints are gone, or when another node owns the session.
func (m *Migrator) disposeOne(ctx context.Context, id string, owned bool) (done bool, err error) {
	c, err := m.objects.NewestCheckpoint(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	if err == nil && c.Node != m.cfg.Node {
		return true, nil
	}
	if !owned {
		err = m.cfg.Owner.Renew(ctx, id)
		if fault.Is(err, fault.Conflict) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		m.mu.Lock()
		m.ending[id] = true
		m.mu.Unlock()
	}
	switch token, owned := m.cfg.Owner.Lookup(id); {
	case token == 0:
		return true, nil
	case !owned:
		return false, nil
	}
	if c.Tenant == "" {
		err = m.objects.Clear(ctx, id, All)
	} else {
		err = m.objects.RemoveSession(ctx, c.Tenant, id)
	}
	if err != nil {
		return false, err
	}
	m.cfg.Owner.Forget(id)
	return true, nil
}
