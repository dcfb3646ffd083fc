package conversation

import (
	"context"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// SnapshotName returns the name of a snapshot of the conversation for the caller who. Like the name
// of a session, no other conversation has it.
func (p Place) SnapshotName(who noderpc.Principal, snapshot string) string {
	return p.Surface + "-" + digest("snapshot", who.Tenant, who.Subject, p.Surface, p.User,
		p.Conversation, snapshot)
}

// Fork copies a session to another place of the same conversation. Errors: Conflict if there is a
// session already, Exhausted if the caller's user has as many as the policy allows.
func (s Sessions) Fork(ctx context.Context, who noderpc.Principal, session string, to Place,
	policy Policy,
) (protocol.Session, error) {
	if err := s.checkFree(ctx, who, to, policy); err != nil {
		return protocol.Session{}, err
	}
	var out protocol.Forks
	err := s.Node.Call(ctx, who, protocol.OpFork, protocol.SessionFork{
		Session: session, Name: to.Name(who), Labels: to.labelsFor(who, policy),
	}, &out)
	if err == nil && len(out.Sessions) != 1 {
		err = fault.New(fault.Internal, "conversation.fork", "%d copies", len(out.Sessions))
	}
	if err != nil {
		return protocol.Session{}, err
	}
	return out.Sessions[0], nil
}

// TakeSnapshot saves the state of a session under a name of the conversation. Errors: Conflict if there
// is a snapshot with this name.
func (s Sessions) TakeSnapshot(ctx context.Context, who noderpc.Principal, session string, p Place,
	name string, lifeSeconds int64,
) (protocol.Snapshot, error) {
	var out protocol.Snapshot
	if err := (Place{Session: name}).Check(); err != nil {
		return out, err
	}
	err := s.Node.Call(ctx, who, protocol.OpSnapshot, protocol.SnapshotCreate{
		Session: session, Name: p.SnapshotName(who, name), ExpiresSeconds: lifeSeconds,
	}, &out)
	return out, err
}

// Restore starts a session from a snapshot of the conversation. Errors: those of Fork, NotFound if
// there is no such snapshot.
func (s Sessions) Restore(ctx context.Context, who noderpc.Principal, snapshot string, to Place,
	policy Policy,
) (protocol.Session, error) {
	var out protocol.Session
	if err := s.checkFree(ctx, who, to, policy); err != nil {
		return out, err
	}
	err := s.Node.Call(ctx, who, protocol.OpSessionCreate, protocol.SessionCreate{
		Name: to.Name(who), Snapshot: to.SnapshotName(who, snapshot),
		Labels:            policy.Create(to.labelsFor(who, policy)).Labels,
		IdleDeleteSeconds: policy.IdleDeleteSeconds,
	}, &out)
	return out, err
}

// checkFree checks that a place has no session, and that the caller's user may have one more.
func (s Sessions) checkFree(ctx context.Context, who noderpc.Principal, to Place, policy Policy,
) error {
	if err := to.Check(); err != nil {
		return err
	}
	_, err := s.Find(ctx, who, to)
	if err == nil {
		return &fault.Error{
			Kind: fault.Conflict, Op: "conversation.copy", Field: "session",
			Message: "the conversation has a session with this name",
		}
	}
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	return s.checkNumber(ctx, who, to, policy.MaxSessions)
}
