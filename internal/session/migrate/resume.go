package migrate

import "slices"

// ResumeWorking resumes the sessions in which code ran when an earlier process ended, the most
// recently used first, so that clients get the results of cells without a request. It resumes them
// one at a time, to leave capacity for requests. A session for which there is no place is resumed
// by its next request.
func (m *Migrator) ResumeWorking() {
	all, _ := m.cfg.Sessions.All()
	type working struct {
		Movable
		d Description
	}
	var sleeping []working
	for _, s := range all {
		if d := s.Describe(); d.Works {
			sleeping = append(sleeping, working{s, d})
		}
	}
	slices.SortFunc(sleeping, func(a, b working) int { return b.d.Active.Compare(a.d.Active) })
	for _, s := range sleeping {
		m.resume(s.Movable)
	}
}

// resume resumes a session as soon as this node owns it.
func (m *Migrator) resume(s Movable) {
	id := s.Describe().ID
	err := m.cfg.Owner.Wait(m.cfg.Context, id, s.Life().Done())
	if err == nil {
		err = m.cfg.Sessions.Resume(m.cfg.Context, id)
	}
	if err != nil {
		m.log.Warn("a session that was at work stays hibernated", "session", id, "error", err)
	}
}
