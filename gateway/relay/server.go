// Package relay connects WebSockets of clients with links to nodes. It passes
// requests and frames on unchanged, after it has checked that the client's
// credentials allow them.
//
// A Server bounds and remembers its sockets. Its mutex is a leaf, and no lock is
// held over a call to a node or a client, except corkedConn.mu over a write.
package relay

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
)

// Credentials checks the principals of sockets.
type Credentials interface {
	// Meter counts a request against the request quotas of its principal.
	Meter(who noderpc.Principal) error
	// Valid reports whether the credentials of a principal have not ended.
	Valid(who noderpc.Principal) bool
}

// Observer counts what happens on sockets.
type Observer interface {
	// Full is called when a principal has too many sockets.
	Full()
	// Slow is called when a client reads nothing for too long.
	Slow()
	// Failed is called with each error that a client is sent.
	Failed(err error)
	// Closed is called with the close code of each socket.
	Closed(code int)
}

// Times are deadlines of sockets.
type Times struct {
	// Write is how long a client may read nothing of what it is sent.
	Write time.Duration
	// Hello is how long the first request may take.
	Hello time.Duration
	// Ping is the time between two pings, Pong how long the answer may take.
	Ping, Pong time.Duration
	// Message is how long one message may take to arrive.
	Message time.Duration
}

// Config is a Server's. All fields but Tracer are required.
type Config struct {
	// Open opens a link to a node.
	Open        func(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	Credentials Credentials
	Observer    Observer
	Times       Times
	// Name is the server's name and version, as the reply to hello has it.
	Name   string
	Tracer *trace.Tracer
	Logger *slog.Logger
	// Base ends when requests under way are given up.
	Base context.Context
}

// Stats are the counters of a Server. All but Open only grow.
type Stats struct {
	Open                    atomic.Int64
	BytesIn, BytesOut       atomic.Int64
	MessagesIn, MessagesOut atomic.Int64
	// PingsIgnored counts pings over maxPings in a second.
	PingsIgnored atomic.Int64
}

// Server serves WebSockets. Make one with New.
type Server struct {
	cfg        Config
	stats      Stats
	operations operations
	wg         sync.WaitGroup // sockets

	mu      sync.Mutex // guards all below; leaf
	closed  bool
	sockets map[*Socket]struct{}
	// perWho counts the sockets of each principal; limit is the most.
	perWho map[string]int
	limit  int
}

// New returns a server without sockets. SetLimit must follow.
func New(cfg Config) *Server {
	return &Server{
		cfg: cfg, operations: newOperations(), sockets: make(map[*Socket]struct{}), perWho: make(map[string]int),
	}
}

// Stats returns the counters, which change while the server runs.
func (s *Server) Stats() *Stats { return &s.stats }

// SetLimit sets how many sockets one principal may have.
func (s *Server) SetLimit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
}

func perWhoKey(who noderpc.Principal) string { return who.Tenant + "\x00" + who.Subject }

// Join reserves a place for a socket, or returns why there is none. Serve or
// Abandon must follow.
func (s *Server) Join(who noderpc.Principal, route string, start time.Time) (*Socket, error) {
	const op = "relay.join"
	key := perWhoKey(who)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &fault.Error{Kind: fault.Restarting, Op: op, RetryAfter: 1}
	}
	if s.perWho[key] >= s.limit {
		s.cfg.Observer.Full()
		return nil, &fault.Error{
			Kind: fault.Exhausted, Op: op, RetryAfter: 5,
			Message: "too many connections are open with these credentials",
		}
	}
	c := &Socket{server: s, who: who, route: route, start: start}
	s.perWho[key]++
	s.sockets[c] = struct{}{}
	s.wg.Add(1)
	s.stats.Open.Add(1)
	return c, nil
}

// leave gives the place of a socket back.
func (s *Server) leave(c *Socket) {
	key := perWhoKey(c.who)
	s.mu.Lock()
	delete(s.sockets, c)
	if s.perWho[key]--; s.perWho[key] <= 0 {
		delete(s.perWho, key)
	}
	s.mu.Unlock()
	s.stats.Open.Add(-1)
	s.wg.Done()
}

// CloseInvalid closes the sockets whose credentials have ended.
func (s *Server) CloseInvalid() {
	s.mu.Lock()
	var out []*Socket
	for c := range s.sockets {
		if !s.cfg.Credentials.Valid(c.who) {
			out = append(out, c)
		}
	}
	s.mu.Unlock()
	for _, c := range out {
		go c.fail(errEnded())
	}
}

func errEnded() error {
	return fault.New(fault.Unauthenticated, "relay.credentials", "the credentials were revoked, or have expired")
}

// Shutdown closes every socket with code 1012, which asks clients to reconnect,
// and lets no more join. Wait returns once they are closed.
func (s *Server) Shutdown() {
	s.mu.Lock()
	s.closed = true
	all := make([]*Socket, 0, len(s.sockets))
	for c := range s.sockets {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		go c.closeWith(closeRestart, string(fault.Restarting))
	}
}

// Wait returns once all sockets are closed. Shutdown must come before.
func (s *Server) Wait() { s.wg.Wait() }

// Abandon gives the place of a socket back that was not served.
func (s *Socket) Abandon() { s.server.leave(s) }

// Serve answers the WebSocket handshake with the given key, and then serves the
// socket in goroutines of its own. It owns the connection. early is what the
// client has already sent after the handshake.
func (s *Socket) Serve(conn net.Conn, early []byte, key string) {
	s.conn = newCorkedConn(conn, early, s.server.cfg.Times.Write, &s.server.stats, s.server.cfg.Observer)
	go s.serveSocket(key)
}
