package session

import (
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// lostBy returns the limit that ended the session; nil for another reason.
// Preconditions: s.mu is held.
func (s *Session) lostBy() *protocol.Reached {
	switch {
	case s.reason == "memory" && s.spec.Limits.MemoryBytes > 0:
		return &protocol.Reached{
			Limit: "memory_bytes", Max: s.spec.Limits.MemoryBytes,
			Lost: "the sandbox with its variables, files and processes",
		}
	case s.reason == "expired":
		return &protocol.Reached{
			Limit: "lifetime_seconds",
			Max:   int64(s.status.Expires.Sub(s.spec.Created) / time.Second),
			Lost:  "the sandbox with its variables, files and processes",
		}
	}
	return nil
}
