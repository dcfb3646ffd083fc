// Package ports counts the connections to the TCP ports of a session, and finds ports that programs
// open and close.
package ports

import (
	"context"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol"
)

const (
	// MaxConns is how many connections to its ports a session has at once.
	MaxConns = 128
	// listLimit limits a request to the agent for the ports that listen.
	listLimit = 5 * time.Second
)

// Ports are the ports of a session. Its methods are safe for concurrent use.
type Ports struct {
	session string
	list    List
	notify  func(protocol.PortChange)

	mu      sync.Mutex // guards all below; a leaf
	conns   int
	looking bool
	known   []wire.Port
}

// New returns the ports of a session. notify reports a change to the session's viewers.
func New(session string, list List, notify func(protocol.PortChange)) *Ports {
	return &Ports{session: session, list: list, notify: notify}
}

// Connect counts a new connection. It returns false when the session has as many connections as it
// can have; otherwise the caller calls Disconnect.
func (p *Ports) Connect() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns >= MaxConns {
		return false
	}
	p.conns++
	return true
}

// Disconnect counts a connection that has ended.
func (p *Ports) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns--
}

// Look reports the ports that were closed and opened since the last call. It does nothing while
// another call is under way, and reports nothing when the agent does not answer in time, because
// the session was paused or has ended.
func (p *Ports) Look(ctx context.Context) {
	if !p.start() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	now, err := p.list(ctx)
	before := p.finish(now, err)
	if err != nil {
		return
	}
	is, was := setOf(now), setOf(before)
	for _, port := range before {
		if !is[port] {
			p.notify(protocol.PortChange{
				Session: p.session, Port: protocol.Port(port),
				Open: false,
			})
		}
	}
	for _, port := range now {
		if !was[port] {
			p.notify(protocol.PortChange{Session: p.session, Port: protocol.Port(port), Open: true})
		}
	}
}

func setOf(all []wire.Port) map[wire.Port]bool {
	set := make(map[wire.Port]bool, len(all))
	for _, p := range all {
		set[p] = true
	}
	return set
}

// start reports whether no look is under way.
func (p *Ports) start() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	busy := p.looking
	p.looking = true
	return !busy
}

// finish ends a look. It keeps the ports that were found, unless there was an error, and returns the
// ones that were known before.
func (p *Ports) finish(now []wire.Port, err error) (before []wire.Port) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking = false
	before = p.known
	if err == nil {
		p.known = now
	}
	return before
}
