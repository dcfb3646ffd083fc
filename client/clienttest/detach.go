package clienttest

import (
	"encoding/json"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Mute makes the server carry out the requests of a session without replies, until Detach.
func (s *Server) Mute(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted[session] = true
}

// Detach ends the attachments of a session on all connections, as a gateway does when the link to the
// session's node ends.
func (s *Server) Detach(session string, kind fault.Kind) {
	s.mu.Lock()
	s.muted[session] = false
	var all []*conn
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.detach(session, kind)
	}
}

func (c *conn) detach(session string, kind fault.Kind) {
	c.turn.Lock()
	defer c.turn.Unlock()
	event := protocol.Detached{
		Requests: c.unanswered,
		Error:    fault.Public{Kind: kind, Message: "the session's node has ended the connection"},
	}
	c.unanswered = nil
	c.server.mu.Lock()
	var ended []*attachment
	for ch, a := range c.attached {
		if a.to.open.Session == session {
			event.Channels = append(event.Channels, ch)
			ended = append(ended, a)
		}
	}
	for _, a := range ended {
		c.drop(a)
	}
	c.server.mu.Unlock()
	for _, a := range ended {
		<-a.done
	}
	if !c.detaches {
		_ = c.ws.CloseNow()
		return
	}
	params, _ := json.Marshal(event)
	body, _ := json.Marshal(protocol.Reply{Event: protocol.EventDetached, Params: params})
	_ = c.text(body)
}

// muted reports whether a request gets no reply.
func (c *conn) muted(req protocol.Request) bool {
	var ref protocol.SessionRef
	_ = json.Unmarshal(req.Params, &ref)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if a := c.attached[req.Ch]; a != nil {
		ref.Session = a.to.open.Session
	}
	return c.server.muted[ref.Session]
}
