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
	// maxConns is how many connections to ports a session has at once.
	maxConns = 128
	// portList bounds a list of the ports that listen.
	portList = 5 * time.Second
)

// ports is the state of a session's ports. Its lock is taken alone.
type ports struct {
	mu      sync.Mutex // guards all below
	conns   int
	looking bool
	known   []wire.Port
}

// add counts a connection in, if it may be.
func (p *ports) add() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns >= maxConns {
		return false
	}
	p.conns++
	return true
}

func (p *ports) done() {
	p.mu.Lock()
	p.conns--
	p.mu.Unlock()
}

// AcquirePort counts a connection to a port of the session in. It is false when
// as many are open as may be; otherwise the caller calls ReleasePort.
func (s *Session) AcquirePort() bool { return s.ports.add() }

// ReleasePort counts a connection to a port out.
func (s *Session) ReleasePort() { s.ports.done() }

// lookAtPorts notifies the viewers of a running session of ports that have been
// opened and closed. It neither resumes a session nor keeps it awake, and does
// nothing for a session without viewers.
func (s *Session) lookAtPorts() {
	s.mu.Lock()
	watchers := make([]*Viewer, 0, len(s.viewers))
	if s.state == running {
		for a := range s.viewers {
			watchers = append(watchers, a)
		}
	}
	s.mu.Unlock()
	if len(watchers) == 0 {
		return
	}
	s.ports.mu.Lock()
	busy := s.ports.looking
	s.ports.looking = true
	s.ports.mu.Unlock()
	if busy {
		return
	}
	s.m.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, portList)
		defer cancel()
		now, err := s.agent.Ports.List(ctx)
		s.ports.mu.Lock()
		before := s.ports.known
		if s.ports.looking = false; err == nil {
			s.ports.known = now
		}
		s.ports.mu.Unlock()
		if err != nil {
			return // paused or ended meanwhile
		}
		tell := func(p wire.Port, open bool) {
			for _, a := range watchers {
				a.client.Notify(protocol.EventPort, protocol.PortChange{Session: s.spec.ID, Port: protocol.Port(p), Open: open})
			}
		}
		for _, p := range before {
			if !slices.Contains(now, p) {
				tell(p, false)
			}
		}
		for _, p := range now {
			if !slices.Contains(before, p) {
				tell(p, true)
			}
		}
	})
}
