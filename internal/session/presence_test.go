package session

import (
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// present waits until the peer has received a matching presence.
func (p *peer) present(ch uint32, what string, ok func(protocol.Presence) bool) {
	p.r.t.Helper()
	p.until(what, func() bool {
		var last protocol.Presence
		for _, n := range p.news {
			if n.Event == protocol.EventPresence && n.Ch == ch {
				last = protocol.Presence{}
				_ = json.Unmarshal(n.Params, &last)
			}
		}
		return ok(last)
	})
}

func TestPresence(t *testing.T) {
	r := newRig(t)
	s := r.create()
	owner := r.open()
	var now protocol.Presence
	owner.must(protocol.OpSessionWatch, 7, protocol.SessionWatch{Session: s.ID}, &now)
	if now.Session != s.ID || now.Drivers != 1 || now.Viewers != 0 {
		t.Errorf("alone: %+v", now)
	}
	if err := owner.ask(protocol.OpSessionWatch, 7, protocol.SessionWatch{Session: s.ID},
		nil); !fault.Is(err, fault.InvalidArgument) {
		t.Errorf("a channel number that is in use: %v", err)
	}
	// A client that only attaches is counted too, with its own role.
	guest := r.openAs(noderpc.Principal{
		Tenant: alice.Tenant, Subject: "link:a",
		Scopes: tenant.Viewer.Scopes(), Session: s.ID,
	})
	guest.must(protocol.OpAttach, 1, protocol.Attach{Session: s.ID, Channel: "k1"}, nil)
	owner.present(7, "a viewer", func(p protocol.Presence) bool {
		return p.Drivers == 1 && p.Viewers == 1 && p.Channels["k1"] == protocol.Present{Viewers: 1}
	})
	// A connection counts once, even with several attached channels.
	other := r.open()
	other.must(protocol.OpAttach, 1, protocol.Attach{Session: s.ID, Channel: "k1", ReadOnly: true},
		nil)
	other.must(protocol.OpAttach, 2, protocol.Attach{Session: s.ID, Channel: "k1"}, nil)
	owner.present(7, "a second driver", func(p protocol.Presence) bool {
		return p.Drivers == 2 && p.Viewers == 1 && p.Channels["k1"] == protocol.Present{
			Drivers: 1,
			Viewers: 1,
		}
	})
	_ = other.link.Close()
	guest.must(protocol.OpDetach, 1, nil, nil)
	owner.present(7, "nobody else", func(p protocol.Presence) bool {
		return p.Drivers == 1 &&
			p.Viewers == 0 && len(p.Channels) == 0
	})
	// A watch with read-only credentials counts as a viewer, also if it requests more.
	guest.must(protocol.OpSessionWatch, 1, protocol.SessionWatch{Session: s.ID}, &now)
	if now.Drivers != 1 || now.Viewers != 1 {
		t.Errorf("a guest sees %+v", now)
	}
	owner.must(protocol.OpDetach, 7, nil, nil)
	guest.present(1, "the owner's leaving",
		func(p protocol.Presence) bool { return p.Drivers == 0 && p.Viewers == 1 })
}

// TestOneSession checks that credentials for one session cannot reach another, in all operations.
func TestOneSession(t *testing.T) {
	r := newRig(t)
	s, secret := r.create(), r.create()
	guest := r.openAs(noderpc.Principal{
		Tenant: alice.Tenant, Subject: "link:a",
		Scopes: tenant.Viewer.Scopes(), Session: s.ID,
	})
	var list protocol.SessionList
	guest.must(protocol.OpSessionList, 0, nil, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].ID != s.ID {
		t.Errorf("listed: %+v", list.Sessions)
	}
	for _, row := range protocol.Operations() {
		op := row.Name
		switch {
		case row.Target == protocol.AtGateway:
			continue // the node does not know it
		case op == protocol.OpHello, op == protocol.OpSessionList, op == protocol.OpParked,
			op == protocol.OpDetach, op == protocol.OpHistory, op == protocol.OpFollow:
			continue // no session, or an attached channel
		}
		params := testenv.ParamsFor(row.Params, map[string]any{
			"session": secret.ID, "channel": "k1", "path": "x", "key": "k",
		})
		err := guest.ask(op, 9, params, nil)
		want := fault.PermissionDenied
		if row.OneSession {
			want = fault.NotFound
		}
		if !fault.Is(err, want) {
			t.Errorf("%s of another session: %v, want %s", op, err, want)
		}
	}
	guest.must(protocol.OpAttach, 1, protocol.Attach{Session: s.ID, Channel: "k1"}, nil)
	for _, op := range []string{
		protocol.OpExecute, protocol.OpInterrupt, protocol.OpRestart,
		protocol.OpVariables, protocol.OpComplete,
	} {
		if err := guest.ask(op, 1, map[string]any{"key": "k", "code": "x"}, nil); !fault.Is(err,
			fault.PermissionDenied) {
			t.Errorf("%s: %v", op, err)
		}
	}
}
