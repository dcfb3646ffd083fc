package session

import (
	"context"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/usage"
	"github.com/sandgate/sandgate/protocol"
)

// janitor does the periodic work of a manager: it ends sessions that have expired, forgets lost
// ones, pauses, hibernates and copies idle ones, and records usage.
type janitor struct {
	m *Manager
	// hibernating is held while an idle session is hibernated: one at a time.
	hibernating ctxlock.Lock
	// autosaving is held while a durable session is copied: one at a time.
	autosaving ctxlock.Lock
	// naming is held while the directory confirms names.
	naming ctxlock.Lock
	// measured is when usage was recorded last. Only run uses it.
	measured time.Time
}

func newJanitor(m *Manager) *janitor {
	return &janitor{
		m: m, hibernating: ctxlock.New(), autosaving: ctxlock.New(), naming: ctxlock.New(),
	}
}

// run works until the manager closes.
func (j *janitor) run() {
	tick := time.NewTicker(j.m.cfg.Tick)
	defer tick.Stop()
	for {
		select {
		case <-j.m.ctx.Done():
			return
		case now := <-tick.C:
			j.tick(now)
			j.m.admission.Freed() // sandboxes may use less memory than before
			j.m.warm.Resize(now)
			j.evictUnderPressure()
		}
	}
}

// portsEvery is after how many seconds the ports of a session without viewers are listed, for events.
const portsEvery = 5

func (j *janitor) tick(now time.Time) {
	m := j.m
	all := m.all()
	m.snapshots.Expire(now)
	m.snapshots.Upload(now)
	m.templates.Upload(now)
	m.departures.Expire(now)
	j.measure(now, all)
	j.inBackground(j.naming, j.confirmNames)
	for _, s := range all {
		j.autosaveIdle(s, now)
		m.migration.UploadDue(movable{s}, now)
		turn := now.Unix() + int64(s.spec.ID[len(s.spec.ID)-1])
		if s.is(running) && (s.channels.Viewers().Count() > 0 ||
			m.cfg.Events != nil && turn%portsEvery == 0) {
			// it neither resumes the session nor keeps it awake
			m.work.Go(func() { s.ports.Look(s.life) })
		}
		switch {
		case s.lostBefore(now.Add(-m.cfg.LostRetention)):
			m.work.Go(func() { m.Remove(s) })
		case !j.expire(s, now):
			j.applyIdlePolicy(s, now)
		}
	}
}

// expire ends a session whose lifetime is over, or hibernates it if its policy requires that. It
// also ends a session that has had no work for as long as its policy allows. It reports whether the
// session has expired.
func (j *janitor) expire(s *Session, now time.Time) bool {
	status := s.currentStatus()
	at, reason := status.End(s.activity.Quiet())
	if s.IsLost() || at.IsZero() || now.Before(at) {
		return j.lapse(s, now)
	}
	j.m.work.Go(func() {
		if reason == protocol.ExpiresByLifetime {
			s.lose("expired", "the session's lifetime is over")
			return
		}
		since := now.Add(-status.Policy.Delete)
		state, ok := s.tryLockIdle(since, running, paused, hibernated)
		if !ok {
			return
		}
		defer s.lifecycle.Unlock()
		if state == running && s.channels.Working(j.m.ctx, since) != nil {
			s.Touch()
			return
		}
		s.lose("expired", "the session had no work for as long as its idle_delete_seconds")
	})
	return true
}

// confirmNames claims doubted names in the directory again. A session whose name another session has
// by now gets another one.
func (j *janitor) confirmNames() {
	m := j.m
	renamed := func(id, name string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if s := m.sessions[id]; s != nil {
			m.log.Warn("a session has another name now", "session", id, "name", name)
			s.mu.Lock()
			s.status.Name = name
			s.mu.Unlock()
		}
	}
	if err := m.names.Confirm(m.ctx, m.owner.Owns, renamed); err != nil {
		m.log.Debug("the names of sessions are not confirmed yet", "error", err)
	}
}

// measure records what all sessions have used, when a minute begins.
func (j *janitor) measure(now time.Time, all []*Session) {
	if now.Truncate(usage.Interval).Equal(j.measured.Truncate(usage.Interval)) {
		return
	}
	j.measured = now
	for _, s := range all {
		if !s.IsLost() {
			s.measure(false, "")
		}
	}
}

// applyIdlePolicy pauses or hibernates the session if its policy requires that at the given time.
func (j *janitor) applyIdlePolicy(s *Session, now time.Time) {
	s.mu.Lock()
	p, state := s.status.Policy, s.state
	s.mu.Unlock()
	switch {
	case state == paused && p.Hibernate > 0 && j.m.cfg.Backend.Capabilities().Checkpoint:
		since := now.Add(-p.Hibernate)
		j.inBackground(j.hibernating, func() { j.hibernateIdle(s, since) })
	case state == running && p.Pause > 0:
		j.pauseIdle(s, now.Add(-p.Pause))
	}
}

// pauseIdle pauses a session that has been idle since the given time.
func (j *janitor) pauseIdle(s *Session, since time.Time) {
	if _, ok := s.tryLockIdle(since, running); !ok {
		return
	}
	defer s.lifecycle.Unlock()
	if c := s.channels.Working(j.m.ctx, since); c != nil {
		if c.IsTerminal() || c.IsService() {
			s.Touch() // ask again after the same time
		}
		return
	}
	if err := s.currentMachine().SetPaused(j.m.ctx, true); err != nil {
		if !s.IsLost() {
			j.m.log.Warn("a session could not be paused", "session", s.spec.ID, "error", err)
			s.Touch() // try again after the same time
		}
		return
	}
	j.m.stats.Pauses.Add(1)
	s.egress.Cut()
	s.mu.Lock()
	if s.state == running {
		s.transition(paused)
	}
	s.mu.Unlock()
}

// hibernateIdle hibernates a session that is paused and has been idle since the given time.
func (j *janitor) hibernateIdle(s *Session, since time.Time) {
	if _, ok := s.tryLockIdle(since, paused); !ok {
		return
	}
	defer s.lifecycle.Unlock()
	if err := j.m.beginHibernation(); err != nil {
		s.Touch() // try again after the same time
		return
	}
	defer j.m.work.Done()
	if err := (hibernation{s}).run(j.m.ctx); err != nil && !s.IsLost() {
		j.m.log.Warn("a session could not be hibernated", "session", s.spec.ID, "error", err)
		s.Touch() // try again after the same time
	}
}

// evictUnderPressure evicts an idle session in the background if the sandboxes
// use more memory than they may.
func (j *janitor) evictUnderPressure() {
	if j.m.cfg.MemoryShort(0) {
		j.inBackground(j.hibernating, func() { admissionNode{j.m}.EvictIdle(j.m.ctx, "") })
	}
}

// autosaveIdle copies a durable session in the background if it is due. It does nothing while
// another session is being copied.
func (j *janitor) autosaveIdle(s *Session, now time.Time) {
	if !s.spec.Durable || !(autosaver{s}).due(now) {
		return
	}
	j.inBackground(j.autosaving, func() {
		ctx, cancel := context.WithTimeout(j.m.ctx, quietLimit)
		defer cancel()
		unlock, err := s.lockQuiet(ctx)
		if err != nil {
			return // requests are under way
		}
		unlock = sync.OnceFunc(unlock)
		defer unlock()
		if !(autosaver{s}).due(now) || s.is(hibernated) {
			return
		}
		if err := (autosaver{s}).save(j.m.ctx, unlock); err != nil && !s.IsLost() {
			j.m.log.Warn("a durable session could not be copied", "session", s.spec.ID, "error",
				err)
		}
	})
}

// inBackground runs do with a lock held, unless the lock is held already.
func (j *janitor) inBackground(lock ctxlock.Lock, do func()) {
	if !lock.TryLock() {
		return
	}
	j.m.work.Go(func() {
		defer lock.Unlock()
		do()
	})
}
