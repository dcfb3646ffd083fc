package carry

import (
	"encoding/json"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Reason is why the kernels, processes and terminals of a carried session have ended.
const Reason = "upgraded"

// note returns the event for the log of a channel. Its kernel, if it has one, has said v.
func note(m Moved, v *Variables) (json.RawMessage, error) {
	text, err := json.Marshal(struct {
		Event string `json:"event"`
		Moved
		Variables *Variables `json:"variables,omitempty"`
		Message   string     `json:"message"`
	}{"upgraded", m, v, message(v)})
	return text, fault.Wrap(fault.Internal, op, err)
}

// replaceSandbox makes v the record of a session whose sandbox is i, with the state of its agent.
// Nothing runs in the sandbox. The logs continue, with a note. Kernels start again with their next cell.
// Processes and terminals have ended. Services start again by their own rules.
func replaceSandbox(v *snapshot.Record, i *warm.Instance, agent client.Saved, m Moved) error {
	v.Layout, v.Info, v.Agent, v.Wires = i.Layout, i.Info, agent, map[uint32]string{}
	// The sandbox gets the session's environment and its own random numbers when it resumes.
	v.Stale, v.Works = true, false
	for n := range v.Channels {
		c := &v.Channels[n]
		if c.Exit != nil {
			continue
		}
		var about *Variables
		if said, ok := m.said[c.ID]; ok {
			about = &said
		}
		event, err := note(m, about)
		if err != nil {
			return err
		}
		c.Note = event
		switch {
		case c.Queue != nil:
			if c.Wire != 0 || c.Queue.Running != nil {
				q := c.Queue.WithoutKernel(queue.Death{
					Reason: Reason, Message: message(about),
				})
				c.Queue, c.Wire = &q, 0
			}
		case c.Service == nil:
			c.Exit = &protocol.Exit{Code: -1, Reason: Reason}
		}
	}
	return nil
}
