package sandbox

import (
	"context"

	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Owners finds the owners of sessions.
type Owners interface {
	// Owner returns the owner of a session. Errors: NotFound if the session never existed, or ended
	// too long ago.
	Owner(ctx context.Context, session string) (nodes.SessionOwner, error)
}

// Resolve sets the principal and the options of a target, for a request of an address. With recent
// it uses the answer of an earlier request, if there is one, which saves a request to the node.
// Errors: one with the status 502 if the sandbox does not run; it says whether it was killed, has
// expired or never existed. Exhausted if the address has asked for too many sandboxes that do not
// exist.
func (t *Target) Resolve(ctx context.Context, from *Lookup, address string, recent bool) error {
	const deleted = "deleted"
	var owner nodes.SessionOwner
	var err error
	if t.Recent = false; recent {
		owner, t.Recent = from.Recent(t.Session)
	}
	if !t.Recent {
		owner, err = from.Owner(ctx, t.Session, address, t.Token)
	}
	switch {
	case fault.Is(err, fault.NotFound):
		return Unavailable(t.ID, "The sandbox was not found: it never existed, or ended long ago")
	case err != nil:
		return err
	case owner.Ended == deleted:
		return Unavailable(t.ID, "The sandbox was not found: it was killed")
	case owner.Ended != "":
		return Unavailable(t.ID, "The sandbox was not found: it has ended ("+owner.Ended+")")
	}
	if t.Options, err = e2bname.OptionsOf(owner.Labels); err != nil {
		return err
	}
	if owner.Suspended && !t.Options.AutoResume {
		return Unavailable(t.ID, "The sandbox was not found: it is paused; connect to it to resume it")
	}
	t.Who = noderpc.Principal{
		Tenant: owner.Tenant, Subject: owner.Subject,
		Scopes: []string{string(protocol.ScopeRead), string(protocol.ScopeWrite)},
	}
	return nil
}

// Gone reports whether an error of an operation says that the sandbox does not run.
func Gone(err error) bool {
	p := fault.PublicOf(err)
	return err != nil && (p.Kind == fault.SandboxLost || p.Cause == fault.CauseSuspended ||
		p.Kind == fault.NotFound && p.Field == "")
}
