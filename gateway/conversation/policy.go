package conversation

import (
	"maps"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
)

// PolicyOf returns the policy of the operator's settings of a surface.
func PolicyOf(s surfaces.Settings) Policy {
	p := Policy{
		Template: s.Template, IdleDeleteSeconds: int64(s.IdleDelete / time.Second),
		MemoryBytes: s.Memory, Labels: s.Labels, MaxSessions: s.MaxSessions,
	}
	if len(s.Network) > 0 {
		p.Network = &protocol.Network{Allow: s.Network}
	}
	return p
}

// Create returns the request that creates a session with more labels. A label of the policy has
// no effect if there is one with the same key.
func (p Policy) Create(labels map[string]string) protocol.SessionCreate {
	all := map[string]string{}
	maps.Copy(all, p.Labels)
	maps.Copy(all, labels)
	c := protocol.SessionCreate{
		Labels: all, Template: p.Template, Language: p.Language, Network: p.Network,
		IdleDeleteSeconds: p.IdleDeleteSeconds,
	}
	if p.MemoryBytes > 0 {
		c.Limits = &protocol.Limits{MemoryBytes: p.MemoryBytes}
	}
	return c
}

// PlaceOf returns the place that the headers of a request name.
func PlaceOf(r *http.Request, surface string, s surfaces.Settings) Place {
	p := Place{Surface: surface}
	if s.UserHeader != "" {
		p.User = r.Header.Get(s.UserHeader)
	}
	if s.ConversationHeader != "" {
		p.Conversation = r.Header.Get(s.ConversationHeader)
	}
	return p
}
