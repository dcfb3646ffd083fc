package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol"
)

const (
	// maxConns is how many connections to its ports a session has at once.
	maxConns = 128
	// portList limits a request to the agent for the ports that listen.
	portList = 5 * time.Second
)

// Ports counts the connections to a session's ports, and finds ports that are opened and closed.
// Its methods are safe for concurrent use.
type Ports struct {
	mu      sync.Mutex // guards all below; a leaf
	conns   int
	looking bool
	known   []wire.Port
}

// Connect counts a new connection. It returns false when the session has as many connections as it
// can have; otherwise the caller calls Disconnect.
func (p *Ports) Connect() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns >= maxConns {
		return false
	}
	p.conns++
	return true
}

// Disconnect counts a connection that has ended.
func (p *Ports) Disconnect() {
	p.mu.Lock()
	p.conns--
	p.mu.Unlock()
}

// startLook reports whether the caller may look; it then calls look.
func (p *Ports) startLook() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	busy := p.looking
	p.looking = true
	return !busy
}

// look returns the ports that were closed and opened since the last look. Preconditions: startLook
// has returned true.
func (p *Ports) look(ctx context.Context, list func(context.Context) ([]wire.Port, error)) (closed, opened []wire.Port) {
	now, err := list(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking = false
	if err != nil {
		return nil, nil // the session was paused or has ended
	}
	before := p.known
	p.known = now
	return without(before, now), without(now, before)
}

// without returns the ports of all that are not in others.
func without(all, others []wire.Port) (rest []wire.Port) {
	for _, p := range all {
		if !slices.Contains(others, p) {
			rest = append(rest, p)
		}
	}
	return rest
}

// Ports returns the counts of the session's ports.
func (s *Session) Ports() *Ports { return &s.ports }

// lookAtPorts notifies the viewers of a running session of ports that have been opened and closed,
// in the background. It neither resumes a session nor keeps it awake, and does nothing for a
// session without viewers.
func lookAtPorts(s *Session) {
	viewers := s.channels.Viewers()
	if !s.is(running) || viewers.Count() == 0 || !s.ports.startLook() {
		return
	}
	s.m.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, portList)
		defer cancel()
		closed, opened := s.ports.look(ctx, s.agent.Ports.List)
		notify := func(p wire.Port, open bool) {
			viewers.Notify(protocol.EventPort, protocol.PortChange{Session: s.spec.ID, Port: protocol.Port(p), Open: open})
		}
		for _, p := range closed {
			notify(p, false)
		}
		for _, p := range opened {
			notify(p, true)
		}
	})
}
