package auth

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

func testPrincipal() noderpc.Principal {
	return noderpc.Principal{
		Tenant: "t1", Subject: "ann",
		Scopes: []string{string(protocol.ScopeRead)},
	}
}

func TestTickets(t *testing.T) {
	s := newTickets("socket", nil, nil, 10)
	s.life = time.Hour
	ctx, who := t.Context(), testPrincipal()
	a, _ := s.Issue(ctx, who, "")
	if _, ok, _ := s.Redeem(ctx, a, "http://any"); !ok {
		t.Error("a valid ticket is refused")
	}
	if _, ok, _ := s.Redeem(ctx, a, ""); ok {
		t.Error("a ticket is valid twice")
	}
	b, _ := s.Issue(ctx, who, "http://page")
	if _, ok, _ := s.Redeem(ctx, b, "http://other"); ok {
		t.Error("a ticket of one origin is valid for another")
	}
	s.life = -time.Second
	c, _ := s.Issue(ctx, who, "")
	if _, ok, _ := s.Redeem(ctx, c, ""); ok {
		t.Error("an expired ticket is valid")
	}
	s.life = time.Hour
	d, _ := s.Issue(ctx, who, "")
	if _, _, ok, _ := (&Tickets{store: s.store, kind: "port", life: s.life}).Take(ctx, d); ok {
		t.Error("a ticket of one kind is valid as another")
	}
}

// TestTicketsOverGateways: two gateways with one store redeem each other's tickets, each once.
// Values that another program stores open nothing.
func TestTicketsOverGateways(t *testing.T) {
	store := local.NewOneTimeStore(100)
	one := testAuthenticator(t, Config{Tickets: store}).SocketTickets
	other := testAuthenticator(t, Config{Tickets: store}).SocketTickets
	ctx, who := t.Context(), testPrincipal()
	who.Until = time.Now().Add(time.Hour).Round(0)
	a, err := one.Issue(ctx, who, "")
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := other.Redeem(ctx, a, "")
	if err != nil || !ok || got.Tenant != who.Tenant || !got.Until.Equal(who.Until) {
		t.Errorf("at the other gateway: %+v %t %v", got, ok, err)
	}
	for _, s := range []*Tickets{one, other} {
		if _, ok, _ := s.Redeem(ctx, a, ""); ok {
			t.Error("it is valid twice")
		}
	}
	for what, value := range map[string]string{
		"plain": `{"who":{"tenant":"t1","scopes":["admin"]}}`, "nothing": "",
	} {
		if err := store.Put(ctx, one.name(what), []byte(value), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, ok, _ := one.Redeem(ctx, what, ""); ok {
			t.Errorf("%s opens", what)
		}
	}
	// A sealed ticket under the name of another.
	b, _ := one.Issue(ctx, who, "")
	value, _ := store.Take(ctx, one.name(b))
	_ = store.Put(ctx, one.name("mine"), value, time.Minute)
	if _, ok, _ := one.Redeem(ctx, "mine", ""); ok {
		t.Error("a ticket opens under another's name")
	}
}

// TestHardening_TicketsOfOneTenant: a tenant that asks for tickets without end leaves tickets for
// others, with a store in memory and with a shared one.
func TestHardening_TicketsOfOneTenant(t *testing.T) {
	for name, s := range map[string]*Tickets{
		"memory": newTickets("socket", nil, nil, 80),
		"shared": testAuthenticator(t, Config{
			Tickets: local.NewOneTimeStore(100), MaxTickets: 80,
		}).SocketTickets,
	} {
		greedy, other := testPrincipal(), testPrincipal()
		other.Tenant = "t2"
		got := 0
		for range 80 {
			if _, err := s.Issue(t.Context(), greedy, ""); err == nil {
				got++
			} else if !fault.Is(err, fault.Exhausted) {
				t.Fatal(err)
			}
		}
		if got < 10 || got > 20 {
			t.Errorf("%s: one tenant got %d of 80 tickets", name, got)
		}
		if _, err := s.Issue(t.Context(), other, ""); err != nil {
			t.Errorf("%s: another tenant: %v", name, err)
		}
	}
}

// TestHardening_RunTokensOfOneTenant: the same for run tokens.
func TestHardening_RunTokensOfOneTenant(t *testing.T) {
	m := newRunTokenIssuer(nil, nil, RunBounds{
		Timeout: time.Minute, Output: 1 << 20, DefaultOutput: 1 << 20, Life: time.Minute,
	}, 80)
	greedy, other := testPrincipal(), testPrincipal()
	other.Tenant = "t2"
	issue := func(who noderpc.Principal) error {
		_, _, err := m.Issue(t.Context(), who, &RunTokenSpec{Origin: "https://x.test"})
		return err
	}
	got := 0
	for range 80 {
		if err := issue(greedy); err == nil {
			got++
		} else if !fault.Is(err, fault.Exhausted) {
			t.Fatal(err)
		}
	}
	if got != 10 {
		t.Errorf("one tenant got %d of 80 run tokens", got)
	}
	if err := issue(other); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}
