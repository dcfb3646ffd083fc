package session

import (
	"github.com/sandgate/sandgate/internal/agent/client"
)

// ID returns the session's id.
func (s *Session) ID() string { return s.spec.ID }

// Agent returns the client of the agent in the session's sandbox, the same one
// over hibernations. Calls without Acquire wait until another request resumes the
// session.
func (s *Session) Agent() *client.Client { return s.agent }

// CountTransfer adds bytes of files to the session's usage.
func (s *Session) CountTransfer(in, out int64) {
	s.meter.In.Add(in)
	s.meter.Out.Add(out)
}
