package ports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol"
)

// TestConnections: a session has a limited number of connections, and one that has ended makes room.
func TestConnections(t *testing.T) {
	p := New("s_test", nil, nil)
	for range MaxConns {
		if !p.Connect() {
			t.Fatal("a connection within the limit was refused")
		}
	}
	if p.Connect() {
		t.Error("a connection over the limit was accepted")
	}
	if p.Disconnect(); !p.Connect() {
		t.Error("a connection that has ended makes no room")
	}
}

// TestLook: each change is reported once, an error changes nothing, and a second look at the same
// time does nothing.
func TestLook(t *testing.T) {
	var listening []wire.Port
	var failure error
	var changes []string
	var p *Ports
	list := func(ctx context.Context) ([]wire.Port, error) {
		p.Look(ctx) // a second look
		return listening, failure
	}
	p = New("s_test", list, func(c protocol.PortChange) {
		changes = append(changes, fmt.Sprint(c.Session, " ", c.Port.Port, " ", c.Open))
	})
	look := func(want ...string) {
		t.Helper()
		changes = nil
		if p.Look(t.Context()); !slices.Equal(changes, want) {
			t.Errorf("reported %q, want %q", changes, want)
		}
	}
	look()
	listening = []wire.Port{{Port: 80}, {Port: 443}}
	look("s_test 80 true", "s_test 443 true")
	look()
	listening, failure = nil, errors.New("paused")
	look()
	failure = nil
	listening = []wire.Port{{Port: 443}, {Port: 22}}
	look("s_test 80 false", "s_test 22 true")
}

// TestHardening_ManyPortsCostLittle: comparing two long lists of different ports takes a time that
// grows with their length, not with its square.
func TestHardening_ManyPortsCostLittle(t *testing.T) {
	const n = 50_000
	var listening []wire.Port
	changes := 0
	p := New("s_test", func(context.Context) ([]wire.Port, error) { return listening, nil },
		func(protocol.PortChange) { changes++ })
	for round := range 2 {
		listening = make([]wire.Port, n)
		for i := range listening {
			listening[i] = wire.Port{Port: i % 65536, Address: fmt.Sprint(round, " ", i)}
		}
		p.Look(t.Context())
	}
	if changes != 3*n {
		t.Errorf("%d changes, want %d", changes, 3*n)
	}
}
