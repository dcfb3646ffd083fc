package nodeapi

import (
	"context"
	"io"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/nodeapi/retry"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// portIdle is how long a connection to a port may be without traffic.
	portIdle = 10 * time.Minute
	// portDial bounds the time until a program accepts a connection.
	portDial = 15 * time.Second
)

func portList(ctx context.Context, c *call, p protocol.SessionRef) (protocol.PortList, error) {
	return withSession(ctx, c, p.Session, func(s *session.Session) (protocol.PortList, error) {
		all, err := s.Agent().Ports.List(ctx)
		if err != nil {
			return protocol.PortList{}, err
		}
		out := protocol.PortList{Ports: make([]protocol.Port, len(all))}
		for i, p := range all {
			out.Ports[i] = protocol.Port(p)
		}
		return out, nil
	})
}

// portOpen connects the link to a port. After the reply, Data frames carry the
// bytes in both directions.
func portOpen(_ context.Context, c *call, p protocol.PortRef, reply func(none, error)) error {
	const longest = int(tenant.MaxPortLinkWait / time.Second)
	if err := c.checkPort(p.Port, p.WaitSeconds, longest); err != nil {
		return err
	}
	s, err := c.session(p.Session)
	if err != nil {
		return err
	}
	u, err := c.addUpload("a port needs a separate link", "a port needs a separate link")
	if err != nil {
		return err
	}
	if !s.Ports().Connect() {
		c.endUpload(u)
		return &fault.Error{
			Kind: fault.Exhausted, Op: c.op(), RetryAfter: 1,
			Message: "too many connections to the session's ports are open",
		}
	}
	c.work.Go(func() {
		defer s.Ports().Disconnect()
		var err error
		if e := c.guard(c.op(),
			func() { err = c.forward(s, p, u.out, func() { reply(none{}, nil) }) }); e != nil {
			err = e
		}
		_ = u.out.CloseWithError(io.ErrClosedPipe)
		if err != nil {
			c.fail(err)
		}
		// When the connection ends, its link ends too.
		_ = c.link.Close()
	})
	return nil
}

// portConn is a connection to a port over a link.
type portConn struct {
	*call
	session *session.Session
	tcp     *client.Conn
	in      *io.PipeReader
	idle    *time.Timer
}

// forward carries bytes between the link and a port until both directions have ended. It returns an
// error that occurs before opened is called. Later errors end the link, which cuts the client's
// connection.
func (c *call) forward(
	s *session.Session, to protocol.PortRef, in *io.PipeReader, opened func(),
) error {
	wait := time.Duration(to.WaitSeconds) * time.Second
	ctx, cancel := context.WithTimeout(c.ctx, portDial+wait)
	defer cancel()
	var tcp *client.Conn
	err := retry.Until(ctx, wait, func() (again bool, err error) {
		release, err := s.Acquire(ctx)
		if err != nil {
			return false, err
		}
		defer release()
		tcp, err = s.Agent().Ports.Dial(ctx, s.Channels().NewWire(), to.Port)
		return fault.Is(err, fault.Unavailable), err
	})
	if err != nil {
		return err
	}
	defer tcp.Close()
	c.server.metrics.portsOpened.Add(1)
	opened()

	p := &portConn{call: c, session: s, tcp: tcp, in: in}
	over := func() { p.cut(); _ = c.link.Close() }
	p.idle = time.AfterFunc(portIdle, over)
	defer p.idle.Stop()
	defer context.AfterFunc(s.Life(), over)()
	defer context.AfterFunc(c.ctx, p.cut)()
	sent := make(chan struct{})
	c.work.Go(func() {
		defer close(sent)
		defer c.caught(c.op(), func(error) { over() })
		p.toPort()
	})
	p.fromPort()
	<-sent
	return nil
}

func (p *portConn) cut() { _ = p.tcp.Close() }

// traffic counts bytes. Traffic resumes the session and keeps it awake.
func (p *portConn) traffic(n int) {
	p.idle.Reset(portIdle)
	p.server.metrics.portBytes.Add(int64(n))
}

// toPort carries bytes from the client.
func (p *portConn) toPort() {
	buf := make([]byte, filePart)
	listens := true
	for {
		n, err := p.in.Read(buf)
		if err == io.EOF {
			_ = p.tcp.CloseWrite()
			return
		}
		if err == nil && listens {
			listens, err = p.feed(buf[:n])
		}
		if err != nil {
			p.cut()
			return
		}
		if listens {
			p.traffic(n)
		} // otherwise the program's answer, sent before it stopped reading, is still on the way
	}
}

// fromPort carries bytes from the program.
func (p *portConn) fromPort() {
	out := &download{link: p.link, channel: p.request.Ch}
	buf := make([]byte, filePart)
	for {
		n, err := p.tcp.Read(buf)
		if n > 0 {
			p.session.Touch()
			p.traffic(n)
			if _, err := out.Write(buf[:n]); err != nil {
				p.cut()
				_ = p.in.CloseWithError(err)
				return
			}
		}
		if err == io.EOF {
			p.send(frame.Frame{Type: frame.Data, Flags: frame.FlagEnd, Channel: p.request.Ch})
			return // the client may still be sending
		}
		if err != nil {
			_ = p.in.CloseWithError(err)
			_ = p.link.Close() // without an end: the connection was cut
			return
		}
	}
}

// feed writes to the port, and resumes the session for it. listens is false when the program no
// longer reads.
func (p *portConn) feed(data []byte) (listens bool, err error) {
	release, err := p.session.Acquire(p.ctx)
	if err != nil {
		return false, err
	}
	release() // a program that does not read does not keep the session awake
	_, err = p.tcp.Write(data)
	return err == nil, nil
}
