package config

import "slices"

// reloadable returns the settings that a running server applies. All others wait for a restart.
func reloadable() []string {
	return []string{
		"allowed_hosts", "allowed_origins", "gateway.sockets_per_principal", "pool.size",
		"sessions.max", "sessions.max_hibernated", "tls.certificates", "log.level",
	}
}

// Reloadable reports whether a running server applies the setting.
func Reloadable(path string) bool { return slices.Contains(reloadable(), path) }

// Apply returns the settings of a server that runs with now and is reloaded with next: now, changed
// by those settings of next that a running server applies. changed names the settings that changed,
// and waiting those that wait for a restart.
func Apply(now, next *Config) (became *Config, changed, waiting []string, err error) {
	became = new(Config)
	*became = *now
	theirs := Fields(next)
	for i, f := range Fields(became) {
		if f.String() == theirs[i].String() {
			continue
		}
		// A server that started without a pool cannot enlarge it.
		none := f.Path == "pool.size" && (now.Pool.Size == 0 || next.Pool.Size == 0)
		if !Reloadable(f.Path) || none {
			waiting = append(waiting, f.Path)
			continue
		}
		f.value.Set(theirs[i].value)
		changed = append(changed, f.Path)
	}
	return became, changed, waiting, became.Validate()
}
