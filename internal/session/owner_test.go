package session

import (
	"maps"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

var gateway = noderpc.Principal{
	Tenant: noderpc.GatewayTenant, Subject: "gateway", Scopes: []string{string(protocol.ScopeAdmin)},
}

// owner asks for the owner of a session, as a gateway does.
func (r *rig) owner(id string) (nodes.SessionOwner, error) {
	return call[nodes.SessionOwner](r, gateway, protocol.OpSessionOwner,
		protocol.SessionRef{Session: id})
}

// TestOwner checks that only a gateway learns whose session it is, that the question does not wake
// the session, and that a session is known after its end and after a restart.
func TestOwner(t *testing.T) {
	r := newRig(t)
	r.host.canRestore = true
	labels := map[string]string{"kind": "test"}
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Labels: labels, LifetimeSeconds: 600})
	expired := r.create()
	ref := protocol.SessionRef{Session: s.ID}
	live, err := r.owner(s.ID)
	if err != nil || live.Tenant != alice.Tenant || live.Subject != alice.Subject ||
		live.State != running.String() || live.ExpiresMS != s.ExpiresMS || live.Ended != "" ||
		!maps.Equal(live.Labels, labels) {
		t.Errorf("a session that runs: %+v, %v", live, err)
	}
	_, err = call[nodes.SessionOwner](r, alice, protocol.OpSessionOwner, ref)
	wantKind(t, "the tenant itself", err, fault.PermissionDenied, "")
	_, err = r.owner("s_01jaaaaaaaaaaaaaaaaaaaaaaa")
	wantKind(t, "a session that never was", err, fault.NotFound, "session")

	must[protocol.Session](r, protocol.OpHibernate, ref)
	active := r.session(s.ID).activity.LastActive()
	for range 2 {
		if o, err := r.owner(s.ID); err != nil || o.State != hibernated.String() {
			t.Errorf("a hibernated session: %+v, %v", o, err)
		}
	}
	if !r.session(s.ID).activity.LastActive().Equal(active) {
		t.Error("the question counts as work")
	}
	must[struct{}](r, protocol.OpSessionDelete, ref)
	r.session(expired.ID).lose("expired", "the session's lifetime is over")
	if o, err := r.owner(expired.ID); err != nil || o.Ended != "expired" ||
		o.State != lost.String() {
		t.Errorf("a lost session in the list: %+v, %v", o, err)
	}
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: expired.ID})

	data := r.data
	for round := range 2 {
		for id, reason := range map[string]string{s.ID: "deleted", expired.ID: "expired"} {
			if o, err := r.owner(id); err != nil || o.Ended != reason ||
				o.Tenant != alice.Tenant || o.Subject != alice.Subject || o.State != "lost" {
				t.Errorf("round %d: the session that was %s: %+v, %v", round, reason, o, err)
			}
		}
		if round == 0 {
			r.stop()
			r = newRig(t, func(c *Config) { c.DataDir, c.Tick = data, time.Hour })
		}
	}
}
