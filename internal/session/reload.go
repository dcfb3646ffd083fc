package session

// Changeable has the settings that can change while a manager runs; see Config for
// the fields. Pools has only languages that had a pool from the start.
type Changeable struct {
	MaxSessions, MaxHibernated int
	Pools                      map[string]int
}

// Reload applies new settings. Sessions above a lower limit stay.
func (m *Manager) Reload(c Changeable) {
	if c.MaxSessions > 0 {
		m.admission.SetMaxSessions(c.MaxSessions)
	}
	m.mu.Lock()
	m.maxHibernated = c.MaxHibernated
	m.mu.Unlock()
	m.warm.SetPools(c.Pools)
}
