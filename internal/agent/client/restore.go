package client

import (
	"context"
	"slices"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Saved is the state of a quiesced client, for the next process.
type Saved struct {
	NextID uint64 `json:"next_id"`
	// Revision is the agent's wire.Revision.
	Revision int                  `json:"revision,omitempty"`
	Flows    map[uint32]SavedFlow `json:"flows"`
	// Later are the frames that wait to be sent. Rest is the beginning of the
	// frame that the end of the wire has cut.
	Later []byte `json:"later,omitempty"`
	Rest  []byte `json:"rest,omitempty"`
}

// SavedFlow counts the bytes to and from a channel: see flow.
type SavedFlow struct {
	Got   uint64 `json:"got"`
	Sent  uint64 `json:"sent,omitempty"`
	Took  uint64 `json:"took,omitempty"`
	Held  bool   `json:"held,omitempty"`
	Asked uint64 `json:"asked,omitempty"`
}

// Save ends a quiesced client whose wire has been drained, and returns its state
// for Restore. Requests under way fail; an execute among them can be rejoined.
func (c *Client) Save(ctx context.Context) (Saved, error) {
	c.End()
	select {
	case <-c.done:
	case <-ctx.Done():
		return Saved{}, fault.Wrap(fault.KindOf(ctx.Err()), "agent.save", ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.saved(c.rest)
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	s.Later = c.out.later
	return s, nil
}

// saved returns the client's state. Preconditions: mu is held.
func (m *mux) saved(rest []byte) Saved {
	s := Saved{
		NextID: m.nextID, Revision: m.revision, Flows: map[uint32]SavedFlow{}, Rest: rest,
	}
	for ch, w := range m.flows {
		s.Flows[ch] = SavedFlow{
			Got: w.got, Sent: w.sent, Took: w.read, Held: w.held,
			Asked: w.asked,
		}
	}
	return s
}

// captured passes the state to Capture, once everything that the sandbox has
// written is taken except rest, the beginning of a frame. It returns rest.
func (m *mux) captured(rest []byte) []byte {
	rest = slices.Clone(rest)
	m.mu.Lock()
	s := m.saved(rest)
	for ch, w := range s.Flows {
		if w.Asked > m.quiesceID {
			w.Asked = 0 // it has not been sent
			s.Flows[ch] = w
		}
	}
	m.mu.Unlock()
	select {
	case <-m.captures: // left over from a Capture whose context had ended
	default:
	}
	m.captures <- s
	return rest
}

// restore takes over the counts of a saved client.
func (m *mux) restore(s Saved) {
	m.rest, m.nextID, m.revision = s.Rest, s.NextID, s.Revision
	for ch, f := range s.Flows {
		// The old client may have counted bytes without an Ack, or sent an Ack that
		// did not arrive. The next Ack, which carries a total, makes up for both.
		m.flows[ch] = &flow{
			got: f.Got, told: f.Got - min(f.Got, wire.AckEvery), sent: f.Sent,
			read: f.Took, held: f.Held, asked: f.Asked,
		}
		if f.Asked != 0 {
			m.waiting[f.Asked] = make(chan wire.Response, 1)
		}
	}
}
