package session

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// setLifetime sets the lifetime of a session, in seconds from now.
func (r *rig) setLifetime(id string, seconds int64) protocol.Session {
	r.t.Helper()
	return must[protocol.Session](r, protocol.OpSessionUpdate,
		protocol.SessionUpdate{Session: id, LifetimeSeconds: &seconds})
}

// within reports whether a time is up to some seconds from now.
func within(ms, seconds int64) bool {
	left := time.Until(time.UnixMilli(ms)).Seconds()
	return left > float64(seconds-20) && left <= float64(seconds)
}

// TestOnExpiry checks that a session is hibernated or suspended at the end of its lifetime, while
// code runs in it too, and is still there after a restart.
func TestOnExpiry(t *testing.T) {
	data := t.TempDir()
	r := newRig(t, func(c *Config) { c.DataDir = data })
	r.host.canRestore = true
	all := map[string]protocol.Session{}
	for _, on := range []string{"delete", "hibernate", "suspend"} {
		s := must[protocol.Session](r, protocol.OpSessionCreate,
			protocol.SessionCreate{OnExpiry: on, LifetimeSeconds: 600})
		want := on
		if on == "delete" {
			want = ""
		}
		if !within(s.ExpiresMS, 600) || s.ExpiresReason != protocol.ExpiresByLifetime ||
			s.OnExpiry != want {
			t.Errorf("%s: %+v", on, s)
		}
		all[on] = s
	}
	p := r.open()
	p.attach(1, all["hibernate"].ID, "k1")
	p.execute(1, "hang")
	p.printed(1, "hanging")
	for _, s := range all {
		if v := r.setLifetime(s.ID, 900); !within(v.ExpiresMS, 900) {
			t.Errorf("extended: %+v", v)
		}
		r.setLifetime(s.ID, 1)
	}
	get := func(on string) protocol.Session {
		return must[protocol.Session](r, protocol.OpSessionGet,
			protocol.SessionRef{Session: all[on].ID})
	}
	eventually(t, "the first is lost", func() bool { return get("delete").Reason == "expired" })
	over := func() bool {
		h, s := get("hibernate"), get("suspend")
		return h.State == "hibernated" && s.State == "hibernated" && h.ExpiresMS+s.ExpiresMS == 0
	}
	eventually(t, "the others are hibernated", over)
	if h, s := get("hibernate"), get("suspend"); h.Suspended || !s.Suspended ||
		h.OnExpiry != "hibernate" || s.OnExpiry != "suspend" {
		t.Errorf("after the lifetime: %+v, %+v", h, s)
	}
	r.suspended("after its lifetime", all["suspend"].ID)
	// A lifetime that ends while the session is hibernated changes nothing more.
	r.setLifetime(all["hibernate"].ID, 1)
	r.stop()

	r = newRig(t, func(c *Config) { c.DataDir = data })
	eventually(t, "both are still there", over)
	r.suspended("after a restart", all["suspend"].ID)
	if v := r.setLifetime(all["suspend"].ID, 600); !v.Suspended || !within(v.ExpiresMS, 600) {
		t.Errorf("a new lifetime: %+v", v)
	}
}

// TestOnExpiryChanges checks changes of on_expiry, and requests with values that are not valid.
func TestOnExpiryChanges(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxLifetime = time.Hour })
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{LifetimeSeconds: 600})
	set := func(on string) (protocol.Session, error) {
		return call[protocol.Session](r, alice, protocol.OpSessionUpdate,
			protocol.SessionUpdate{Session: s.ID, OnExpiry: &on})
	}
	for _, on := range []string{"suspend", "hibernate", "delete"} {
		v, err := set(on)
		if err != nil || v.OnExpiry != on && on != "delete" || !within(v.ExpiresMS, 600) {
			t.Errorf("%s: %+v, %v", on, v, err)
		}
	}
	_, err := set("stay")
	wantKind(t, "an unknown value", err, fault.InvalidArgument, "on_expiry")
	_, err = call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{OnExpiry: "Delete"})
	wantKind(t, "an unknown value of a new session", err, fault.InvalidArgument, "on_expiry")
	// The operator's bound deletes all sessions.
	if _, err := set("suspend"); err != nil {
		t.Fatal(err)
	}
	one := r.session(s.ID)
	if at, _ := one.currentStatus().End(time.Now()); !within(at.UnixMilli(), 3600) {
		t.Errorf("it is deleted at %s", at)
	}
	if !newJanitor(r.m).expire(one, time.Now().Add(time.Hour)) {
		t.Error("it outlives the longest lifetime")
	}
	eventually(t, "it is lost", one.IsLost)
}

// TestOnExpiryUnsupported checks that a server which cannot hibernate sessions refuses to do so.
func TestOnExpiryUnsupported(t *testing.T) {
	r := newNode(t, &native{t: t, less: true}, func(c *Config) { c.Languages = languages() })
	_, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{OnExpiry: "hibernate"})
	wantKind(t, "without checkpoints", err, fault.Unsupported, "on_expiry")
}

// TestGVisorOnExpiry checks that a session whose lifetime was over has it again from its resume.
func TestGVisorOnExpiry(t *testing.T) {
	r := newGVisor(t, t.TempDir())
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{OnExpiry: "hibernate", LifetimeSeconds: 3})
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 42")
	one := r.session(s.ID)
	over := func() bool { return one.is(hibernated) && one.View().ExpiresMS == 0 }
	eventually(t, "it is hibernated", over)
	if text, _ := p.run(1, "print(x)"); text != "42\n" {
		t.Errorf("resumed: %q", text)
	}
	if v := one.View(); !within(v.ExpiresMS, 3) {
		t.Errorf("its next lifetime: %+v", v)
	}
	eventually(t, "it is hibernated again", over)
	if v := r.setLifetime(s.ID, 600); !within(v.ExpiresMS, 600) || v.State != "hibernated" {
		t.Errorf("with a new lifetime: %+v", v)
	}
	if v := must[protocol.Session](r, protocol.OpResume,
		protocol.SessionRef{Session: s.ID}); !within(v.ExpiresMS, 600) {
		t.Errorf("resumed: %+v", v)
	}
}
