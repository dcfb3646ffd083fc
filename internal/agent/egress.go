package agent

import (
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/stream"
)

const (
	// headLimit is how long a program may take to say where it wants to go.
	headLimit = 30 * time.Second
	// answerLimit is how long the host may take to connect. It has a limit of
	// its own; this one is for a copy of a sandbox, where nobody answers.
	answerLimit = 2 * time.Minute
	// partingLimit is how long a program may take to read that it may not.
	partingLimit = 5 * time.Second
)

// openProxy listens on a loopback port. It may be called again with the same
// one: the listener is in snapshots, too.
func (s *Server) openProxy(port int) error {
	const op = "agent.proxy"
	if port < 1 || port > 65535 {
		return fault.Invalid(op, "proxy", "a port is a number from 1 to 65535")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.proxy != nil && s.proxyPort == port {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		e := &fault.Error{Kind: fault.Host, Op: op, Message: "the sandbox's proxy cannot listen", Err: err}
		if errors.Is(err, syscall.EADDRINUSE) {
			e.Kind, e.Field, e.Message = fault.Conflict, "network", "a program in the sandbox listens on port "+strconv.Itoa(port)+", which is the proxy's"
		}
		return e
	}
	if s.proxy != nil {
		s.proxy.Close()
	}
	s.proxy, s.proxyPort = l.(*net.TCPListener), port
	s.wg.Add(1)
	go s.acceptOutbound(s.proxy)
	return nil
}

// closeProxy ends what openProxy has begun.
func (s *Server) closeProxy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proxy != nil {
		s.proxy.Close()
	}
	s.proxy, s.proxyPort = nil, 0
}

// acceptOutbound takes connections until the listener is closed.
func (s *Server) acceptOutbound(l *net.TCPListener) {
	defer s.wg.Done()
	for {
		tcp, err := l.AcceptTCP()
		if err == nil {
			s.outbound(tcp)
			continue
		}
		s.mu.Lock()
		over := s.closed || s.proxy != l
		s.mu.Unlock()
		if over || errors.Is(err, net.ErrClosed) {
			return
		}
		// For want of descriptors, say.
		<-time.After(50 * time.Millisecond)
	}
}

// outbound serves one connection, beside the others.
func (s *Server) outbound(tcp *net.TCPConn) {
	t := &transfer{s: s, moved: make(chan struct{}, 1), freed: make(chan struct{}, 1), outbound: true, answers: make(chan wire.EgressAnswer, 1)}
	t.win.limit, t.win.wake = wire.ConnWindow, t.free
	c := &conn{transfer: t, tcp: tcp, body: -1}
	t.cut = c.reset
	s.mu.Lock()
	s.outbounds++
	t.id = wire.EgressBase + s.outbounds%wire.EgressBase
	s.mu.Unlock()
	if err := s.begin("agent.proxy", t, true); err != nil {
		_ = tcp.SetDeadline(time.Now().Add(partingLimit))
		_, _ = tcp.Write(refusal(err)) // into an empty buffer
		_ = tcp.Close()
		return
	}
	go func() {
		defer s.wg.Done()
		defer s.forget(t, true)
		_ = tcp.SetDeadline(time.Now().Add(headLimit))
		h, rest, err := c.head()
		if err == nil {
			_ = tcp.SetDeadline(time.Time{})
			if err = c.ask(h); err == nil && h.tunnel() {
				_, err = tcp.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
			}
		}
		var known *fault.Error
		switch {
		case c.isAborted():
			c.reset()
			c.tellCut()
		case err == nil:
			rest = h.within(rest)
			c.before, c.body = append(h.forward, rest...), h.body
			if c.body > 0 {
				c.body -= int64(len(rest))
			}
			c.serve()
		case errors.As(err, &known):
			_ = tcp.SetDeadline(time.Now().Add(partingLimit))
			_, _ = tcp.Write(refusal(err))
			parting(tcp)
		default:
			_ = tcp.Close() // it went away before it had asked
		}
	}()
}

// within is what of p belongs to the body.
func (h head) within(p []byte) []byte {
	if h.body >= 0 && int64(len(p)) > h.body {
		return p[:h.body]
	}
	return p
}

func (c *conn) head() (h head, rest []byte, err error) {
	text, rest, err := readHead(c.tcp)
	if err == nil {
		h, err = parseHead(text)
	}
	return h, rest, err
}

// ask has the host connect, and waits for that.
func (c *conn) ask(h head) error {
	c.s.send(wire.Response{Event: "dial", Channel: c.id, Dial: &wire.EgressTarget{Host: h.host, Port: h.port}})
	timer := time.NewTimer(answerLimit)
	defer timer.Stop()
	for {
		select {
		case a := <-c.answers:
			if a.Error != nil {
				return a.Error.Err("agent.proxy")
			}
			return nil
		case <-c.moved:
			if c.isAborted() {
				return net.ErrClosed
			}
		case <-timer.C:
			// Should the host be at it, it is to stop.
			body, _ := json.Marshal(fault.Public{Kind: fault.DeadlineExceeded, Message: "nobody waits any more"})
			c.s.host.write(stream.AppendFrame(nil, stream.Frame{Type: stream.Data, Flags: stream.FlagEnd | wire.FlagAbort, Channel: c.id, Body: body}))
			return fault.New(fault.DeadlineExceeded, "agent.proxy", "the server did not connect in %s", answerLimit)
		}
	}
}

// answered takes the host's answer to an event dial.
func (s *Server) answered(r wire.Request) {
	var a wire.EgressAnswer
	s.mu.Lock()
	t := s.transfers[r.Channel]
	s.mu.Unlock()
	if params(r, &a) != nil || t == nil || t.answers == nil {
		s.stray.Add(1) // it went away meanwhile
		return
	}
	select {
	case t.answers <- a:
	default:
		s.stray.Add(1)
	}
}
