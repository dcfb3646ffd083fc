package session

// Changeable are the settings that a manager takes up while it runs; the
// fields are Config's. Pools holds the languages that had a pool from the
// start.
type Changeable struct {
	MaxSessions, MaxHibernated int
	Pools                      map[string]int
}

// Reload takes up new settings. Sessions over a limit that has become lower
// stay.
func (m *Manager) Reload(c Changeable) {
	if c.MaxSessions > 0 {
		m.admission.SetMaxSessions(c.MaxSessions)
	}
	m.mu.Lock()
	m.maxHibernated = c.MaxHibernated
	m.mu.Unlock()
	m.warm.SetPools(c.Pools)
}
