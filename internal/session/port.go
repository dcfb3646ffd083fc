package session

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

const (
	// maxConns is how many connections to ports a session has at once.
	maxConns = 128
	// portIdle is how long such a connection may carry nothing.
	portIdle = 10 * time.Minute
	// portDial bounds the time until a program has accepted one.
	portDial = 15 * time.Second
	// portList bounds a look at what listens.
	portList = 5 * time.Second
)

// ports is what a session knows of its ports. It has a lock of its own, which
// is taken alone.
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

// opPortOpen connects the link to a port. What follows on the link are bytes,
// in Data frames, both ways.
func opPortOpen(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.PortRef](r)
	if err != nil {
		return nil, err
	}
	if p.Port < 1 || p.Port > 65535 {
		return nil, fault.Invalid(r.Op, "port", "a port is a number from 1 to 65535")
	}
	s, err := c.m.Find(c.principal, p.Session)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	u := &upload{pipe: in}
	c.mu.Lock()
	switch {
	case c.attached == nil:
		err = fault.New(fault.Canceled, r.Op, "the link has ended")
	case c.upload != nil || len(c.attached) > 0:
		err = fault.New(fault.Conflict, r.Op, "a port takes a link of its own")
	case !s.ports.add():
		err = &fault.Error{Kind: fault.Exhausted, Op: r.Op, RetryAfter: 1, Message: "too many connections to the session's ports are open"}
	default:
		c.upload = u
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c.work.Go(func() {
		defer s.ports.done()
		err := c.forward(s, r, p.Port, out)
		_ = out.CloseWithError(io.ErrClosedPipe)
		if err != nil {
			c.reply(r.ID, nil, err)
		}
		// The end of a connection is the end of its link.
		_ = c.link.Close()
	})
	return answered{}, nil
}

// forward carries bytes between the link and a port until both have ended. An
// error before the reply is returned; later ones end the link, which cuts the
// client's connection.
func (c *linkHandler) forward(s *Session, r protocol.Request, port int, in *io.PipeReader) error {
	ctx, cancel := context.WithTimeout(c.ctx, portDial)
	defer cancel()
	end, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	tcp, err := s.agent.Ports.Dial(ctx, s.router.number(), port)
	end()
	if err != nil {
		return err
	}
	defer tcp.Close()
	s.m.count.portsOpened.Add(1)
	c.reply(r.ID, nothing{}, nil)

	cut := func() { _ = tcp.Close() }
	over := func() { cut(); _ = c.link.Close() }
	idle := time.AfterFunc(portIdle, over)
	defer idle.Stop()
	defer context.AfterFunc(s.life, over)()
	defer context.AfterFunc(c.ctx, cut)()
	// Traffic is work: it wakes the session, and keeps it awake.
	traffic := func(n int) {
		idle.Reset(portIdle)
		s.m.count.portBytes.Add(int64(n))
	}
	sent := make(chan struct{})
	c.work.Go(func() {
		defer close(sent)
		buf := make([]byte, filePart)
		listens := true
		for {
			n, err := in.Read(buf)
			if err == io.EOF {
				_ = tcp.CloseWrite()
				return
			}
			if err == nil && listens {
				listens, err = s.feed(c.ctx, tcp, buf[:n])
			}
			if err != nil {
				cut()
				return
			}
			if listens {
				traffic(n)
			} // else what it answered before it stopped to listen is on the way
		}
	})
	out := &download{link: c.link, channel: r.Ch}
	buf := make([]byte, filePart)
	for {
		n, err := tcp.Read(buf)
		if n > 0 {
			s.Touch()
			traffic(n)
			if _, err := out.Write(buf[:n]); err != nil {
				cut()
				_ = in.CloseWithError(err)
				break
			}
		}
		if err == io.EOF {
			c.send(stream.Frame{Type: stream.Data, Flags: stream.FlagEnd, Channel: r.Ch})
			break // the client may still be sending
		}
		if err != nil {
			_ = in.CloseWithError(err)
			_ = c.link.Close() // without an end: it was cut
			break
		}
	}
	<-sent
	return nil
}

// feed writes to a port, and wakes the session for it. listens is false once
// the program takes nothing more.
func (s *Session) feed(ctx context.Context, tcp *client.Conn, p []byte) (listens bool, err error) {
	end, err := s.Acquire(ctx)
	if err != nil {
		return false, err
	}
	end() // a program that does not read does not keep the session awake
	_, err = tcp.Write(p)
	return err == nil, nil
}

func opPortList(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	s, err := c.ref(r)
	if err != nil {
		return nil, err
	}
	end, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	all, err := s.agent.Ports.List(ctx)
	if err != nil {
		return nil, err
	}
	out := protocol.PortList{Ports: make([]protocol.Port, len(all))}
	for i, p := range all {
		out.Ports[i] = protocol.Port(p)
	}
	return out, nil
}

// lookAtPorts tells the viewers of a running session which ports have been
// opened and closed. It is no work: it neither wakes a session nor keeps it
// awake, and a session that nobody watches is left alone.
func (s *Session) lookAtPorts() {
	s.mu.Lock()
	watchers := make([]*Viewer, 0, len(s.watchers))
	if s.state == running {
		for a := range s.watchers {
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
				a.tell(protocol.EventPort, protocol.PortChange{Session: s.id, Port: protocol.Port(p), Open: open})
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
