package conversation

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestNames checks that each part of a place and of its caller leads to another session, also if
// parts move from one field to the next.
func TestNames(t *testing.T) {
	type caller = noderpc.Principal
	seen := map[string]string{}
	for label, x := range map[string]struct {
		who caller
		p   Place
	}{
		"default":         {caller{Tenant: "t", Subject: "k"}, Place{Surface: "mcp"}},
		"tenant":          {caller{Tenant: "u", Subject: "k"}, Place{Surface: "mcp"}},
		"subject":         {caller{Tenant: "t", Subject: "l"}, Place{Surface: "mcp"}},
		"moved":           {caller{Tenant: "tk"}, Place{Surface: "mcp"}},
		"surface":         {caller{Tenant: "t", Subject: "k"}, Place{Surface: "dify"}},
		"user":            {caller{Tenant: "t", Subject: "k"}, Place{Surface: "mcp", User: "a"}},
		"conversation":    {caller{Tenant: "t", Subject: "k"}, Place{Surface: "mcp", Conversation: "a"}},
		"session":         {caller{Tenant: "t", Subject: "k"}, Place{Surface: "mcp", Session: "a"}},
		"user and more":   {caller{Tenant: "t", Subject: "k"}, Place{Surface: "mcp", User: "a", Session: "b"}},
		"user with it":    {caller{Tenant: "t", Subject: "k"}, Place{Surface: "mcp", User: "ab"}},
		"conversation ab": {caller{Tenant: "t", Subject: "k"}, Place{Surface: "mcp", Conversation: "ab"}},
	} {
		name := x.p.Name(x.who)
		if other, twice := seen[name]; twice {
			t.Errorf("%s and %s have one session", label, other)
		}
		seen[name] = label
		if name != x.p.Name(x.who) || !strings.HasPrefix(name, x.p.Surface+"-") {
			t.Errorf("%s is called %s", label, name)
		}
	}
}

// node records the operations.
type node struct {
	ops    []string
	create protocol.SessionCreate
	fork   protocol.SessionFork
	find   error
}

func (n *node) Call(_ context.Context, _ noderpc.Principal, op string, params, result any) error {
	n.ops = append(n.ops, op)
	switch p := params.(type) {
	case protocol.SessionCreate:
		n.create = p
		if out, ok := result.(*protocol.Ensured); ok {
			*out = protocol.Ensured{Session: protocol.Session{ID: "s_1"}}
		}
	case protocol.SessionFork:
		n.fork = p
		*result.(*protocol.Forks) = protocol.Forks{Sessions: []protocol.Session{{ID: "s_2"}}}
	case protocol.SessionName:
		return n.find
	}
	return nil
}

// TestEnsure checks the request that creates a session.
func TestEnsure(t *testing.T) {
	n, who := new(node), noderpc.Principal{Tenant: "t", Subject: "k"}
	p := Place{Surface: "mcp", User: "ada", Conversation: "c"}
	network := &protocol.Network{}
	s, err := Sessions{n}.Ensure(context.Background(), who, p, Policy{
		Template: "science", Language: "go", Network: network, IdleDeleteSeconds: 60,
	})
	want := map[string]string{LabelSurface: "mcp", LabelUser: "ada", LabelConversation: "c"}
	if c := n.create; err != nil || s.ID != "s_1" || c.Name != p.Name(who) ||
		!maps.Equal(c.Labels, want) || c.Template != "science" || c.Language != "go" ||
		c.Network != network || c.IdleDeleteSeconds != 60 {
		t.Errorf("%+v %v", n.create, err)
	}
	for field, wrong := range map[string]Place{
		"user":         {User: strings.Repeat("x", MaxText+1)},
		"conversation": {Conversation: "a\x00"},
		"session":      {Session: "\xff"},
	} {
		_, err := Sessions{n}.Ensure(context.Background(), who, wrong, Policy{})
		if fault.PublicOf(err).Field != field {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
