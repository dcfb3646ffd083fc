package jupyter

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/jupyter/channels"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestSocketShares: a principal and a tenant have their shares of the WebSockets, and each refusal is
// counted.
func TestSocketShares(t *testing.T) {
	refused := 0
	row := tenantlimit.Lookup(tenantlimit.JupyterSockets)
	s := sockets{
		shares: tenantlimit.New(row), full: func() { refused++ }, open: map[string]int{},
	}
	who := func(tenant, subject string) noderpc.Principal {
		return noderpc.Principal{Tenant: tenant, Subject: subject}
	}
	var leave []func()
	join := func(who noderpc.Principal) error {
		end, err := s.join(who, "k")
		if err == nil {
			leave = append(leave, end)
		}
		return err
	}
	for range maxSockets {
		if err := join(who("a", "1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := join(who("a", "1")); !fault.Is(err, fault.Exhausted) {
		t.Errorf("a principal has more than its share: %v", err)
	}
	for range row.Tenant - maxSockets {
		if err := join(who("a", "2")); err != nil {
			t.Fatal(err)
		}
	}
	if err := join(who("a", "3")); !fault.Is(err, fault.Exhausted) {
		t.Errorf("a tenant has more than its share: %v", err)
	}
	if err := join(who("b", "1")); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if refused != 2 || s.count("k") != row.Tenant+1 {
		t.Errorf("%d were refused, %d are open", refused, s.count("k"))
	}
	for _, end := range leave {
		end()
	}
	if held, _, _ := s.shares.Counts(); held != 0 || len(s.open) != 0 {
		t.Errorf("%d and %v are left", held, s.open)
	}
}

// TestPositions: a position is used once and until a time, and their number is bounded.
func TestPositions(t *testing.T) {
	s := sockets{positions: map[string]resume{}}
	at := channels.Position{Epoch: 1, Offset: 2}
	s.putPosition("a", at)
	if got := s.takePosition("a"); got != at {
		t.Errorf("the position is %+v", got)
	}
	if got := s.takePosition("a"); got != (channels.Position{}) {
		t.Errorf("the position is used twice: %+v", got)
	}
	s.positions["old"] = resume{at, time.Now().Add(-time.Second)}
	if got := s.takePosition("old"); got != (channels.Position{}) {
		t.Errorf("an old position is used: %+v", got)
	}
	for i := range maxPositions + 10 {
		s.positions["old"] = resume{at, time.Now().Add(-time.Second)}
		s.putPosition(string(rune('a'+i)), at)
	}
	if len(s.positions) > maxPositions+1 {
		t.Errorf("%d positions are kept", len(s.positions))
	}
}

// TestKernelIDs: an id of a kernel names its session and channel, in five groups.
func TestKernelIDs(t *testing.T) {
	for _, session := range []string{"s_lqmvu7gz6mssgswygfeougdexm", "s_1", "s_aaaaaaaaaaaaaaaaaaaaa"} {
		id := kernelID(session, "k12")
		if got, channel, ok := parseID(id); !ok || got != session || channel != "k12" {
			t.Errorf("%s is %s, which is %s %s", session, id, got, channel)
		}
	}
	for _, id := range []string{"", "k1", "_k1", "-_k1", "a-b-c_", "a/b_k1"} {
		if _, _, ok := parseID(id); ok {
			t.Errorf("%q has a session", id)
		}
	}
}

// TestTerminalNames: a name of a terminal names its session at the server-wide server alone.
func TestTerminalNames(t *testing.T) {
	wide, one := &place{}, &place{session: "s_x"}
	for p, want := range map[*place]string{wide: "s_x_t3", one: "t3"} {
		name := p.terminalName("s_x", "t3")
		session, channel, ok := p.parseTerminal(name)
		if name != want || session != "s_x" || channel != "t3" || !ok {
			t.Errorf("%s is %s %s", name, session, channel)
		}
	}
	for _, name := range []string{"", "t3", "a/b_t3"} {
		if _, _, ok := wide.parseTerminal(name); ok {
			t.Errorf("%q has a session", name)
		}
	}
}
