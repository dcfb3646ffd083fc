package auth

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
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
