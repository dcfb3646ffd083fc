package session

import (
	"context"

	"github.com/sandgate/sandgate/internal/agent/client"
)

// ID returns the session's id.
func (s *Session) ID() string { return s.spec.ID }

// Life ends when the session is lost.
func (s *Session) Life() context.Context { return s.life }

// Agent returns the client of the agent in the session's sandbox, the same one
// over hibernations. Preconditions for its calls: Acquire, or the willingness
// to wait until something else resumes the session.
func (s *Session) Agent() *client.Client { return s.agent }

// NewWire returns a channel number of the agent's wire that was never used.
func (s *Session) NewWire() uint32 { return s.router.Number() }

// CountTransfer adds bytes of files to the session's usage.
func (s *Session) CountTransfer(in, out int64) {
	s.meter.In.Add(in)
	s.meter.Out.Add(out)
}

// ChannelOf returns the id of the channel that a number on the wire belongs to,
// also when the first process of that channel has ended; "" for none.
func (s *Session) ChannelOf(wire uint32) string {
	if wire == 0 {
		return ""
	}
	if t, ok := s.router.get(wire); ok {
		return t.channel.id
	}
	for _, c := range s.Channels() {
		if c.queue == nil && c.wire == wire {
			return c.id
		}
	}
	return ""
}
