package conversation

import (
	"context"
	"maps"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestPolicyOf checks that each setting reaches the request that creates a session, and that a
// label of the operator does not replace one of a surface.
func TestPolicyOf(t *testing.T) {
	c := PolicyOf(surfaces.Settings{
		Template: "science", Network: []string{"a.example"}, IdleDelete: time.Hour, Memory: 1 << 30,
		Labels: map[string]string{"team": "x", LabelSurface: "other"},
	}).Create(map[string]string{LabelSurface: "mcp"})
	if c.Template != "science" || len(c.Network.Allow) != 1 || c.IdleDeleteSeconds != 3600 ||
		c.Limits.MemoryBytes != 1<<30 ||
		!maps.Equal(c.Labels, map[string]string{"team": "x", LabelSurface: "mcp"}) {
		t.Errorf("%+v", c)
	}
	c = PolicyOf(surfaces.Settings{}).Create(nil)
	if c.Network != nil || c.Limits != nil || c.IdleDeleteSeconds != 0 {
		t.Errorf("settings out of nothing: %+v", c)
	}
}

// TestPlaceOf reads the headers of the settings and no other.
func TestPlaceOf(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-User-Id", "ada")
	r.Header.Set("X-Session-Id", "chat")
	want := Place{Surface: "openterminal", User: "ada", Conversation: "chat"}
	if p := PlaceOf(r, "openterminal", surfaces.Defaults("openterminal")); p != want {
		t.Errorf("%+v", p)
	}
	if p := PlaceOf(r, "dify", surfaces.Defaults("dify")); p != (Place{Surface: "dify"}) {
		t.Errorf("%+v", p)
	}
}

// crowd is a node whose caller has sessions.
type crowd struct {
	node
	sessions int
	query    protocol.SessionQuery
}

func (n *crowd) Call(ctx context.Context, who noderpc.Principal, op string, params, result any,
) error {
	if q, ok := params.(protocol.SessionQuery); ok {
		n.query = q
		result.(*protocol.SessionList).Sessions = make([]protocol.Session, n.sessions)
		return nil
	}
	return n.node.Call(ctx, who, op, params, result)
}

// TestMaxSessions refuses one session too many, and no session that exists.
func TestMaxSessions(t *testing.T) {
	who, policy := noderpc.Principal{Tenant: "t", Subject: "k"}, Policy{MaxSessions: 2}
	none := fault.New(fault.NotFound, "x", "none")
	for _, x := range []struct {
		sessions int
		find     error
		refused  bool
	}{{1, none, false}, {2, none, true}, {2, nil, false}} {
		n := &crowd{node: node{find: x.find}, sessions: x.sessions}
		_, err := Sessions{n}.Ensure(context.Background(), who,
			Place{Surface: "mcp", User: "a"}, policy)
		if fault.Is(err, fault.Exhausted) != x.refused || !x.refused && err != nil {
			t.Errorf("%+v: %v", x, err)
		}
		if x.find == nil {
			continue
		}
		label := n.query.Labels[0]
		if !x.refused && label != LabelCaller+":"+n.create.Labels[LabelCaller] {
			t.Errorf("sessions with %q are counted, new ones have %v", label, n.create.Labels)
		}
		other := &crowd{node: node{find: none}}
		_, _ = Sessions{other}.Ensure(context.Background(), who,
			Place{Surface: "mcp", User: "b"}, policy)
		if other.query.Labels[0] == label {
			t.Error("two users are counted together")
		}
	}
}
