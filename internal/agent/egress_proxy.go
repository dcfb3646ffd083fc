package agent

import (
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/agent/egress"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// headLimit is how long a program may take to send its request.
	headLimit = 30 * time.Second
	// answerLimit is how long the host may take to connect. The host has a limit of
	// its own. This one is for a copy of a sandbox, where nobody answers.
	answerLimit = 2 * time.Minute
	// refusalLimit is how long a program may take to read a refusal.
	refusalLimit = 5 * time.Second
)

// egressProxy is the HTTP proxy on a loopback port through which programs
// connect to the outside. The agent sends the host an event dial for each
// connection, and the host answers with OpEgressAnswer. From then on Data goes
// both ways, as over a connection to a port. The agent decides nothing.
type egressProxy struct {
	s *Server

	// All below are guarded by Server.mu.
	listener *net.TCPListener // nil while there is no egress
	port     int
	count    uint32 // connections so far
}

// listensOn reports whether a port is the proxy's.
func (e *egressProxy) listensOn(port int) bool {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	return e.listener != nil && e.port == port
}

// isOpen reports whether programs can ask for connections to the outside.
func (e *egressProxy) isOpen() bool {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	return e.listener != nil
}

// open listens on a loopback port. It may be called again with the same port,
// because snapshots contain the listener.
func (e *egressProxy) open(port int) error {
	const op = "agent.proxy"
	if port < 1 || port > 65535 {
		return fault.Invalid(op, "proxy", "a port is a number from 1 to 65535")
	}
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.s.closed || e.listener != nil && e.port == port {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		f := &fault.Error{
			Kind: fault.Host, Op: op, Message: "the sandbox's proxy cannot listen",
			Err: err,
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			f.Kind, f.Field, f.Message = fault.Conflict, "network",
				"a program in the sandbox listens on port "+strconv.Itoa(port)+
					", which is the proxy's port"
		}
		return f
	}
	if e.listener != nil {
		e.listener.Close()
	}
	e.listener, e.port = l.(*net.TCPListener), port
	e.s.wg.Add(1)
	go e.accept(e.listener)
	return nil
}

// close stops listening. Open connections remain.
func (e *egressProxy) close() {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	if e.listener != nil {
		e.listener.Close()
	}
	e.listener, e.port = nil, 0
}

// accept takes connections until the listener is closed.
func (e *egressProxy) accept(l *net.TCPListener) {
	defer e.s.wg.Done()
	for {
		tcp, err := l.AcceptTCP()
		if err == nil {
			e.serve(tcp)
			continue
		}
		e.s.mu.Lock()
		over := e.s.closed || e.listener != l
		e.s.mu.Unlock()
		if over || errors.Is(err, net.ErrClosed) {
			return
		}
		// The sandbox may have run out of descriptors.
		<-time.After(50 * time.Millisecond)
	}
}

// serve serves one connection in a goroutine of its own.
func (e *egressProxy) serve(tcp *net.TCPConn) {
	t := &transfer{
		s: e.s, changed: make(chan struct{}, 1), room: make(chan struct{}, 1),
		egress: true, answers: make(chan wire.EgressAnswer, 1),
	}
	t.win.limit, t.win.wake = wire.ConnWindow, t.signalRoom
	c := &portConn{transfer: t, tcp: tcp, body: -1}
	t.cut = c.reset
	e.s.mu.Lock()
	e.count++
	t.id = wire.EgressBase + e.count%wire.EgressBase
	e.s.mu.Unlock()
	if err := e.s.addTransfer("agent.proxy", t, true); err != nil {
		_ = tcp.SetDeadline(time.Now().Add(refusalLimit))
		_, _ = tcp.Write(egress.Refusal(err)) // into an empty buffer
		_ = tcp.Close()
		return
	}
	go func() {
		defer e.s.wg.Done()
		defer e.s.removeTransfer(t, true)
		_ = tcp.SetDeadline(time.Now().Add(headLimit))
		h, rest, err := c.readRequest()
		if err == nil {
			_ = tcp.SetDeadline(time.Time{})
			if err = c.askHost(h); err == nil && h.Tunnel() {
				_, err = tcp.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n"))
			}
		}
		var known *fault.Error
		switch {
		case c.isAborted():
			c.reset()
			c.reportCut()
		case err == nil:
			rest = h.BodyPart(rest)
			c.before, c.body = append(h.Forward, rest...), h.Body
			if c.body > 0 {
				c.body -= int64(len(rest))
			}
			c.serve()
		case errors.As(err, &known):
			_ = tcp.SetDeadline(time.Now().Add(refusalLimit))
			_, _ = tcp.Write(egress.Refusal(err))
			egress.CloseAfterRefusal(tcp)
		default:
			_ = tcp.Close() // it closed before it had sent a request
		}
	}()
}

func (c *portConn) readRequest() (h egress.Request, rest []byte, err error) {
	text, rest, err := egress.ReadHead(c.tcp)
	if err == nil {
		h, err = egress.ParseHead(text)
	}
	return h, rest, err
}

// askHost asks the host to connect, and waits for the answer.
func (c *portConn) askHost(h egress.Request) error {
	c.s.send(wire.Response{
		Event: "dial", Channel: c.id,
		Dial: &wire.EgressTarget{Host: h.Host, Port: h.Port},
	})
	timer := time.NewTimer(answerLimit)
	defer timer.Stop()
	for {
		select {
		case a := <-c.answers:
			if a.Error != nil {
				return a.Error.Err("agent.proxy")
			}
			return nil
		case <-c.changed:
			if c.isAborted() {
				return net.ErrClosed
			}
		case <-timer.C:
			// Stop the host if it is still connecting.
			body, _ := json.Marshal(fault.Public{
				Kind:    fault.DeadlineExceeded,
				Message: "nobody waits any more",
			})
			c.s.host.write(frame.Append(nil, frame.Frame{
				Type:  frame.Data,
				Flags: frame.FlagEnd | wire.FlagAbort, Channel: c.id, Body: body,
			}))
			return fault.New(fault.DeadlineExceeded, "agent.proxy",
				"the server did not connect in %s", answerLimit)
		}
	}
}

// handleAnswer takes the host's answer to an event dial.
func (e *egressProxy) handleAnswer(r wire.Request) {
	var a wire.EgressAnswer
	e.s.mu.Lock()
	t := e.s.transfers[r.Channel]
	e.s.mu.Unlock()
	if params(r, &a) != nil || t == nil || t.answers == nil {
		e.s.stray.Add(1) // the program has closed the connection
		return
	}
	select {
	case t.answers <- a:
	default:
		e.s.stray.Add(1)
	}
}
