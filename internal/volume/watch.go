package volume

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Session is a session with volumes, as Watch needs it.
type Session interface {
	// Hold returns the hold on its volumes.
	Hold() *Hold
	// Running reports whether its programs run. A session that begins to run
	// calls Hold.NotifyRunning.
	Running() bool
	// NotifyFull reports to users that a volume becomes read-only, because of a limit in bytes.
	NotifyFull(volume, limit string, bytes int64)
	// LockVolume makes a volume read-only in the sandbox. It reports whether it
	// has. It may take a while. Errors: Conflict while files of the volume are open
	// for writing.
	LockVolume(volume string) (locked bool, err error)
	// End ends the session for a reason, in the background.
	End(message string)
}

// A volume that a session can write to is measured before it could become full at a rate of
// fullRate bytes a second: at least every DefaultEvery and at most every minEvery, or every
// growingEvery while it grows. Measuring takes at most a tenth of the time. Data that arrives faster
// exceeds the limit.
const (
	DefaultEvery = 5 * time.Second
	minEvery     = 50 * time.Millisecond
	growingEvery = 10 * time.Millisecond
	fullRate     = 1 << 30
)

// measure measures a volume unless it was measured a moment ago. Measuring takes at most a tenth of
// the time.
func (v *Store) measure(one *volume) {
	v.mu.Lock()
	fresh := one.gone || time.Since(one.measured) < max(10*one.cost, growingEvery/2)
	v.mu.Unlock()
	if fresh {
		return
	}
	began := time.Now()
	u, err := v.tree(filepath.Join(one.dir, dataFolder))
	if err != nil {
		v.cfg.Log.Warn("a volume could not be measured", "volume", one.ID, "error", err)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	one.grows = u.bytes > one.used.bytes
	one.used, one.measured, one.cost = u, time.Now(), time.Since(began)
}

// patience is how long a measurement may delay that of other volumes.
const patience = 10 * time.Millisecond

// measureBriefly is measure that returns after patience at the latest. A volume with very many files
// takes seconds, in which a program could write far beyond the limit of another volume. The
// measurement then continues in the background, and wakes Watch at its end. Volumes that took longer
// than patience are measured one at a time.
func (v *Store) measureBriefly(one *volume) {
	v.mu.Lock()
	busy, slow := one.measuring, one.cost > patience
	one.measuring = true
	v.mu.Unlock()
	if busy {
		return
	}
	done := make(chan struct{})
	var late atomic.Bool
	v.pending.Go(func() {
		defer close(done)
		if slow {
			v.slow.Lock()
			defer v.slow.Unlock()
		}
		v.measure(one)
		v.mu.Lock()
		one.measuring = false
		v.mu.Unlock()
		if late.Load() {
			v.look()
		}
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		late.Store(true)
	}
}

// wait returns how long after a measurement the next one is due.
func (v *Store) wait(one *volume) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	free := max(0, one.MaxBytes-one.used.bytes)
	soon := time.Duration(float64(free) / fullRate * float64(time.Second))
	least := minEvery
	if one.grows {
		least = growingEvery
	}
	return min(max(soon, least, 10*one.cost), max(v.cfg.Every, 10*one.cost))
}

// tidySlack is how much a session may write to a volume that it found full, so
// that it can remove files there.
const tidySlack = 1 << 20

// full reports whether a volume exceeds its limit because of the session with a
// hold. A session that finds a volume full may remove files, as long as the volume
// does not grow. A volume that is too large to measure is full after
// DefaultEvery. quota reports that the owner's quota of disk space is used up: a volume that has grown
// since the session found it is full then.
func (v *Store) full(one *volume, h *Hold, quota bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	f, known := h.found[one]
	if !known && one.measuring {
		return false // the use that the session finds is not known yet
	}
	if !known {
		f = foundUse{one.used.bytes, time.Now()}
	}
	f.bytes = min(f.bytes, one.used.bytes)
	h.found[one] = f
	if quota && one.used.bytes > f.bytes+tidySlack {
		return true
	}
	if one.used.beyond {
		return time.Since(f.at) >= DefaultEvery
	}
	return one.used.bytes > max(one.MaxBytes, f.bytes+tidySlack)
}

// maxExcess is how far programs may exceed the limit of a volume through files
// that are open: an eighth of the limit, or maxExcess where that is more, but at
// most twice the limit in total.
const maxExcess = 64 << 20

// excessive reports whether a volume holds more than that.
func (v *Store) excessive(one *volume) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return one.used.bytes-one.MaxBytes > min(one.MaxBytes, max(one.MaxBytes/8, maxExcess))
}

// Watch measures the volumes that sessions write to, until ctx ends, and makes the
// full ones read-only for those sessions. sessions returns the sessions with
// volumes. It also holds the names of all volumes.
func (v *Store) Watch(ctx context.Context, sessions func() []Session) {
	defer v.pending.Wait()
	v.pending.Go(func() { v.keepNames(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := map[*volume]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.begun:
		case <-timer.C:
		}
		timer.Reset(v.measureDue(sessions(), due))
	}
}

// measureDue measures the volumes that are due, and returns how long until the
// next one is.
func (v *Store) measureDue(all []Session, due map[*volume]time.Time) time.Duration {
	seen := map[*volume]bool{}
	for _, s := range all {
		if !s.Running() {
			continue // it writes nothing, and calls NotifyRunning when it can
		}
		h := s.Hold()
		for i, one := range h.volumes {
			if h.mounts[i].ReadOnly || h.isLocked(one) {
				continue
			}
			if !seen[one] && !time.Now().Before(due[one]) {
				v.measureBriefly(one)
				due[one] = time.Now().Add(v.wait(one))
			}
			seen[one] = true
			quota, over := v.quotaOf(one)
			if v.full(one, h, over) {
				v.lock(s, one, quota)
			}
		}
	}
	next := v.cfg.Every
	if one := v.stale(seen); one != nil {
		v.measureBriefly(one)
		next = growingEvery
	}
	for one, at := range due {
		if !seen[one] {
			delete(due, one)
			continue
		}
		next = min(next, time.Until(at))
	}
	return max(next, growingEvery/2)
}

// lock makes a full volume read-only for a session, and notifies the session. The sandbox may be
// busy, so this continues in the background. While files there are open for writing, later calls
// try again. A session that writes far more through such a file ends. quota is the quota of disk
// space that is used up, or 0 if the volume is over its own limit.
func (v *Store) lock(s Session, one *volume, quota int64) {
	h := s.Hold()
	h.mu.Lock()
	reported, locking, resets := h.reported[one], h.locking[one], h.resets
	h.reported[one], h.locking[one] = true, true
	h.mu.Unlock()
	if locking {
		return
	}
	if !reported {
		v.exceeded.Add(1)
		if quota > 0 {
			s.NotifyFull(one.Name, "quota.disk_bytes", quota)
		} else {
			s.NotifyFull(one.Name, "volume_bytes", one.MaxBytes)
		}
	}
	v.pending.Go(func() {
		locked, err := s.LockVolume(one.Name)
		switch {
		case fault.Is(err, fault.Conflict):
			if v.excessive(one) {
				s.End("it has written far more to the volume " + one.Name + " than that may hold")
			}
		case err != nil:
			v.cfg.Log.Warn("a full volume was not made read-only", "volume", one.ID, "error", err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.resets == resets {
			delete(h.locking, one)
			h.locked[one] = locked && err == nil
		}
	})
}

// quotaOf returns the quota of disk space that the owner of a volume has used up. It asks only for a
// volume that grows, because the answer takes time.
func (v *Store) quotaOf(one *volume) (quota int64, full bool) {
	v.mu.Lock()
	one.stale = true
	ask := v.cfg.DiskFull != nil && one.grows && one.used.bytes <= one.MaxBytes
	v.mu.Unlock()
	if !ask {
		return 0, false
	}
	return v.cfg.DiskFull(one.Tenant, one.Subject)
}

// look makes Watch look at the volumes now.
func (v *Store) look() {
	select {
	case v.begun <- struct{}{}:
	default:
	}
}
