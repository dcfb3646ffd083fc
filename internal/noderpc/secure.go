package noderpc

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"time"
)

// maxHandshakes is the maximum number of concurrent handshakes. The next connection waits to be
// accepted.
const maxHandshakes = 64

// handshakeTimeout is the maximum duration of a handshake.
const handshakeTimeout = 5 * time.Second

// Secure returns a listener for connections of ln whose peer has proved to be a gateway of the
// cluster. Other connections do not count towards MaxConns.
func (c *Credentials) Secure(ln net.Listener, log *slog.Logger) net.Listener {
	s := &secure{
		Listener: ln, cfg: c.serverConfig(), log: discard(log), conns: make(chan net.Conn),
		failed: make(chan error, 1), turns: make(chan struct{}, maxHandshakes),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.work.Go(s.accept)
	return s
}

type secure struct {
	net.Listener
	cfg    *tls.Config
	log    *slog.Logger
	conns  chan net.Conn
	failed chan error
	turns  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func (s *secure) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case err := <-s.failed:
		return nil, err
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends the listener and the handshakes under way.
func (s *secure) Close() error {
	s.cancel()
	err := s.Listener.Close()
	s.work.Wait()
	return err
}

func (s *secure) accept() {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			select {
			case s.failed <- err:
				continue
			case <-s.ctx.Done():
				return
			}
		}
		select {
		case s.turns <- struct{}{}:
		case <-s.ctx.Done():
			_ = conn.Close()
			return
		}
		s.work.Go(func() {
			defer func() { <-s.turns }()
			s.prove(conn)
		})
	}
}

// prove passes a connection on when its peer has proved its identity.
func (s *secure) prove(raw net.Conn) {
	conn := tls.Server(raw, s.cfg)
	ctx, cancel := context.WithTimeout(s.ctx, handshakeTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		s.log.Warn("rejected a connection", "address", raw.RemoteAddr(), "reason", err)
		_ = raw.Close()
		return
	}
	select {
	case s.conns <- conn:
	case <-s.ctx.Done():
		_ = conn.Close()
	}
}
