package sandbox

import (
	"context"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Owner describes the session of a sandbox to the gateway.
type Owner struct {
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"`
	// State is the session's state.
	State string `json:"state"`
	// Suspended is set if only an explicit request resumes the session.
	Suspended bool              `json:"suspended,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Ended says why the session has ended; empty for one that exists.
	Ended string `json:"ended,omitempty"`
}

// Owners finds the owners of sessions.
type Owners interface {
	// Owner returns the owner of a session. Errors: NotFound if the session never existed, or ended
	// too long ago.
	Owner(ctx context.Context, session string) (Owner, error)
}

// Resolve sets the principal and the options of a target. Errors: one with the status 502 if the
// sandbox does not run; it says whether it was killed, has expired or never existed.
func (t *Target) Resolve(ctx context.Context, from Owners) error {
	const killed = "killed"
	owner, err := from.Owner(ctx, t.Session)
	switch {
	case fault.Is(err, fault.NotFound):
		return Unavailable(t.ID, "The sandbox was not found: it never existed, or ended long ago")
	case err != nil:
		return err
	case owner.Ended == killed:
		return Unavailable(t.ID, "The sandbox was not found: it was killed")
	case owner.Ended != "":
		return Unavailable(t.ID, "The sandbox was not found: it has ended ("+owner.Ended+")")
	}
	if t.Options, err = OptionsOf(owner.Labels); err != nil {
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
