package conversation

import (
	"context"
	"testing"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestCopies checks that a copy never takes the name of another session, and counts as a session.
func TestCopies(t *testing.T) {
	ctx := context.Background()
	who, to := noderpc.Principal{Tenant: "t"}, Place{Surface: "mcp", User: "a", Session: "try"}
	policy := Policy{MaxSessions: 2, IdleDeleteSeconds: 60}
	none := fault.New(fault.NotFound, "x", "none")
	for label, do := range map[string]func(n Node) (protocol.Session, error){
		"fork": func(n Node) (protocol.Session, error) {
			return Sessions{n}.Fork(ctx, who, "s_1", to, policy)
		},
		"restore": func(n Node) (protocol.Session, error) {
			return Sessions{n}.Restore(ctx, who, "before", to, policy)
		},
	} {
		taken := &crowd{}
		if _, err := do(taken); !fault.Is(err, fault.Conflict) || len(taken.ops) != 1 {
			t.Errorf("%s: %v after %v", label, err, taken.ops)
		}
		full := &crowd{node: node{find: none}, sessions: 2}
		if _, err := do(full); !fault.Is(err, fault.Exhausted) || len(full.ops) != 1 {
			t.Errorf("%s of a user with two sessions: %v after %v", label, err, full.ops)
		}
		free := &crowd{node: node{find: none}, sessions: 1}
		if _, err := do(free); err != nil {
			t.Errorf("%s: %v", label, err)
		}
		name, labels := free.fork.Name, free.fork.Labels
		if label == "restore" {
			name, labels = free.create.Name, free.create.Labels
			if free.create.Snapshot != to.SnapshotName(who, "before") ||
				free.create.IdleDeleteSeconds != 60 {
				t.Errorf("restore: %+v", free.create)
			}
		}
		if name != to.Name(who) || labels[LabelSession] != "try" ||
			LabelCaller+":"+labels[LabelCaller] != free.query.Labels[0] {
			t.Errorf("%s: %q %v", label, name, labels)
		}
	}
}

// TestSnapshotNames checks that no other conversation reaches a snapshot, and that no session has
// its name.
func TestSnapshotNames(t *testing.T) {
	who := noderpc.Principal{Tenant: "t", Subject: "k"}
	p := Place{Surface: "mcp", User: "a", Conversation: "c", Session: "s"}
	name := p.SnapshotName(who, "s")
	moved := p
	moved.Session = "other" // all sessions of a conversation see its snapshots
	if moved.SnapshotName(who, "s") != name {
		t.Error("another session of the conversation does not see the snapshot")
	}
	for label, other := range map[string]string{
		"session":  p.Name(who),
		"snapshot": p.SnapshotName(who, "t"),
		"caller":   p.SnapshotName(noderpc.Principal{Tenant: "t", Subject: "l"}, "s"),
		"user":     Place{Surface: "mcp", User: "b", Conversation: "c"}.SnapshotName(who, "s"),
		"conversation": Place{Surface: "mcp", User: "a", Conversation: "d"}.
			SnapshotName(who, "s"),
	} {
		if other == name {
			t.Errorf("another %s has the same name", label)
		}
	}
	n := new(node)
	if _, err := (Sessions{n}).TakeSnapshot(t.Context(), who, "s_1", p, "a\x00", 60); fault.PublicOf(
		err).Kind != fault.InvalidArgument || len(n.ops) != 0 {
		t.Errorf("a name with a control character: %v", err)
	}
}
