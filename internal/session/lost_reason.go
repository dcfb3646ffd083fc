package session

import "github.com/sandgate/sandgate/internal/sandbox"

// lostReason returns a session's reason for the end of its sandbox: a reason of
// protocol.Session.
func lostReason(e sandbox.Exit) string {
	switch e.Reason {
	case sandbox.Memory:
		return "memory"
	case sandbox.Exited:
		return "exited"
	case sandbox.Crashed:
		return "crashed"
	case sandbox.HostMemory:
		return "host"
	}
	return "killed"
}
