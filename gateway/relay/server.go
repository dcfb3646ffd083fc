// Package relay connects WebSockets of clients with links to nodes. It forwards requests and frames
// unchanged, after it has checked that the client's credentials allow them.
//
// A Server bounds the number of its sockets and keeps a list of them. Its mutex is a leaf, and no
// lock is held during a call to a node or a client, except corkedConn.mu during a write.
package relay

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Credentials checks the principals of sockets.
type Credentials interface {
	// Meter counts a request against the request quotas of its principal.
	Meter(who noderpc.Principal) error
	// Valid reports whether the credentials of a principal have not ended.
	Valid(who noderpc.Principal) bool
}

// Observer counts events on sockets.
type Observer interface {
	// Full is called when a principal has too many sockets.
	Full()
	// Slow is called when a client reads nothing for too long.
	Slow()
	// Failed is called with each error that is sent to a client.
	Failed(err error)
	// Closed is called with the close code of each socket.
	Closed(code int)
}

// Times are deadlines of sockets.
type Times struct {
	// Write is how long a client may read nothing while data waits for it.
	Write time.Duration
	// Hello is how long the first request may take.
	Hello time.Duration
	// Ping is the time between two pings. Pong is how long the answer may take.
	Ping, Pong time.Duration
	// Message is how long one message may take to arrive.
	Message time.Duration
}

// Config configures a Server. All fields except Tracer are required.
type Config struct {
	// Open opens a link to a node.
	Open        func(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	Credentials Credentials
	Observer    Observer
	Times       Times
	// Name is the server's name and version in the reply to hello.
	Name   string
	Tracer *trace.Tracer
	Logger *slog.Logger
	// Base ends when requests in progress are abandoned.
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

// Server serves WebSockets. Create one with New.
type Server struct {
	cfg        Config
	stats      Stats
	operations operations
	wg         sync.WaitGroup // counts the sockets

	mu      sync.Mutex // guards all fields below; leaf
	closed  bool
	sockets map[*Socket]struct{}
	// perWho counts the sockets of each principal; limit is the most.
	perWho map[string]int
	limit  int
	// perTenant counts the sockets of each tenant.
	perTenant map[string]int
}

// New returns a server without sockets. SetLimit must be called before Join.
func New(cfg Config) *Server {
	return &Server{
		cfg: cfg, operations: newOperations(), sockets: make(map[*Socket]struct{}),
		perWho: make(map[string]int), perTenant: make(map[string]int),
	}
}

// Stats returns the counters, which change while the server runs.
func (s *Server) Stats() *Stats { return &s.stats }

// SetLimit sets the largest number of sockets of one principal.
func (s *Server) SetLimit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
}

func perWhoKey(who noderpc.Principal) string { return who.Tenant + "\x00" + who.Subject }

// Join reserves a place for a socket, or returns the reason why there is none. The caller must then
// call Serve or Abandon.
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
	share := tenantlimit.Lookup(tenantlimit.WebSockets)
	share.Tenant = max(share.Tenant, s.limit)
	if err := share.Check(op, s.perTenant[who.Tenant], 0); err != nil {
		s.cfg.Observer.Full()
		return nil, err
	}
	c := &Socket{server: s, who: who, route: route, start: start}
	s.perTenant[who.Tenant]++
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
	if s.perTenant[c.who.Tenant]--; s.perTenant[c.who.Tenant] <= 0 {
		delete(s.perTenant, c.who.Tenant)
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
	return fault.New(fault.Unauthenticated, "relay.credentials",
		"the credentials were revoked, or have expired")
}

// Shutdown closes every socket with code 1012, after which clients reconnect, and rejects further
// ones. Wait returns once they are closed.
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

// Wait returns once all sockets are closed. Shutdown must be called before.
func (s *Server) Wait() { s.wg.Wait() }

// Abandon gives back the place of a socket that was not served.
func (s *Socket) Abandon() { s.server.leave(s) }

// Serve answers the WebSocket handshake with the given key, and then serves the socket in its own
// goroutines. It owns the connection. early is the data that the client has already sent after the
// handshake.
func (s *Socket) Serve(conn net.Conn, early []byte, key string) {
	s.conn = newCorkedConn(conn, early, s.server.cfg.Times.Write, &s.server.stats,
		s.server.cfg.Observer)
	go s.serveSocket(key)
}
