// Package proxy carries connections from programs in sandboxes to outside hosts. A Proxy belongs to
// one session, or to the build of one template.
package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of a proxy, besides those of Config.
const (
	// dialRate is how many connections a session may request per second, and dialBurst how many at
	// once. Further requests wait.
	dialRate  = 50
	dialBurst = 200
	// partSize is the size of the buffer of each direction, in bytes.
	partSize = 64 << 10
)

// Options connects a Service with its node.
type Options struct {
	// Audit records each connection.
	Audit audit.Log
	// Go runs a function in a goroutine that the node waits for when it stops.
	Go func(f func())
	// Fenced returns an error unless the node owns a session.
	Fenced func(session string) error
}

// Service creates the proxies of a node. It is safe for concurrent use.
type Service struct {
	cfg  Config
	opts Options

	opened, denied, failed, over, bytes atomic.Int64
}

// NewService returns a Service. Preconditions: cfg is resolved.
func NewService(cfg Config, o Options) *Service { return &Service{cfg: cfg, opts: o} }

// Counts count since NewService.
type Counts struct {
	// Opened, Denied and Failed are connections. Over are connections that were cut because their
	// session had reached its limit of bytes.
	Opened, Denied, Failed, Over int64
	// Bytes are the bytes of all connections in both directions.
	Bytes int64
}

// Counts returns the counts of all proxies together.
func (s *Service) Counts() Counts {
	return Counts{
		Opened: s.opened.Load(), Denied: s.denied.Load(), Failed: s.failed.Load(),
		Over: s.over.Load(), Bytes: s.bytes.Load(),
	}
}

// Owner is the session, or the build of a template, that a proxy belongs to.
type Owner struct {
	// Kind is session or build, for messages.
	Kind string
	// Tenant, Subject, Session and Name are recorded in the audit log. Session is empty for a
	// build. Name is the name of the build's template.
	Tenant, Subject, Session, Name string
	// Life ends with the owner.
	Life context.Context
	// Touch records that the owner is active.
	Touch func()
	// In and Out count the bytes from and to the outside.
	In, Out *atomic.Int64
}

// Proxy carries the connections of one owner. An owner without a network has a nil Proxy.
type Proxy struct {
	s    *Service
	o    Owner
	rate *rate.Limiter // nil means no limit
	asks *rate.Limiter
	used atomic.Int64 // bytes, in both directions

	mu     sync.Mutex // guards all below; leaf
	asked  protocol.Network
	rules  egress.Rules
	open   map[*client.Conn]carried
	closed bool
}

// carried is a connection that is requested or open.
type carried struct {
	to  wire.EgressTarget
	cut context.CancelFunc
	// reached is the address to which the connection is open.
	reached netip.Addr
}

// New returns the proxy of an owner for a network that Check has returned. used is the number of
// bytes that the owner has transferred before. The caller passes Handle to the agent's client.
func (s *Service) New(o Owner, n protocol.Network, used int64) (p *Proxy, err error) {
	p = &Proxy{
		s: s, o: o, asks: rate.NewLimiter(dialRate, dialBurst),
		open: map[*client.Conn]carried{},
	}
	p.used.Store(used)
	if err := p.Set(n); err != nil {
		return nil, err
	}
	if r := s.cfg.Rate; r > 0 {
		p.rate = rate.NewLimiter(rate.Limit(r), int(max(r, partSize)))
	}
	return p, nil
}

// Set changes the network: to none if n is off, otherwise to one that Check has returned. It cuts
// connections to targets that are not allowed any more. A program may request further connections
// to these targets, and is refused.
func (p *Proxy) Set(n protocol.Network) error {
	rules := egress.Rules{Allow: p.s.cfg.Gate.Allowed()}
	var err error
	switch {
	case n.Off:
		rules.Allow = nil
	case n.Allow != nil:
		if rules.Allow, err = egress.ParseList("network.allow", n.Allow); err != nil {
			return err
		}
	}
	if rules.Deny, err = egress.ParseNetworks("network.deny", n.Deny); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.rules = n, rules
	for _, c := range p.open {
		if t, err := egress.ParseTarget(c.to.Host, c.to.Port); err != nil || !rules.Allows(t) ||
			rules.Denies(c.reached) {
			c.cut()
		}
	}
	return nil
}

// Apply is Set with a network that CheckUpdate has returned; nil changes nothing.
func (p *Proxy) Apply(n *protocol.Network) error {
	if n == nil {
		return nil
	}
	return p.Set(*n)
}

// Network returns the hosts that the owner may connect to; nil without a network.
// p may be nil.
func (p *Proxy) Network() *protocol.Network {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked.Off {
		return nil
	}
	return &protocol.Network{Allow: p.rules.Allow.Strings(), Deny: p.asked.Deny}
}

// State returns the arguments with which New continues later: the requested network, and the bytes
// that were transferred. n is nil for an owner that never had a network. p may be nil.
func (p *Proxy) State() (n *protocol.Network, used int64) {
	if p == nil {
		return nil, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	return &asked, p.used.Load()
}

// Open returns how many connections are open.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Handle carries a connection that a program requests, in the background. The goroutine that reads
// the agent wire calls it.
func (p *Proxy) Handle(to wire.EgressTarget, n *client.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.s.cfg.Connections
	switch {
	case p.closed:
		n.Refuse(fault.New(fault.Unavailable, "egress", "the %s has ended", p.o.Kind))
	case len(p.open) >= most:
		p.s.denied.Add(1)
		n.Refuse(fault.New(fault.Exhausted, "egress",
			"the %s has %d connections, which is the most there may be (egress.connections)",
			p.o.Kind, most))
	default:
		ctx, cancel := context.WithCancel(p.o.Life)
		p.open[n] = carried{to: to, cut: cancel}
		p.s.opts.Go(func() {
			defer func() {
				cancel()
				p.mu.Lock()
				delete(p.open, n)
				p.mu.Unlock()
			}()
			p.carry(ctx, cancel, to, n)
		})
	}
}

// Cut resets all connections on both sides, because the session pauses. p may be nil.
func (p *Proxy) Cut() { p.cut(false) }

// Close resets all connections like Cut, and refuses further ones. p may be nil.
func (p *Proxy) Close() { p.cut(true) }

func (p *Proxy) cut(final bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.closed || final
	for _, c := range p.open {
		c.cut()
	}
}

// carry connects a program to its target, and carries bytes until both directions have ended. ctx
// ends when the connection is cut.
func (p *Proxy) carry(ctx context.Context, cut context.CancelFunc, to wire.EgressTarget,
	n *client.Conn,
) {
	e := &audit.Record{Began: time.Now()}
	e.Event, e.Tenant, e.Subject, e.Session, e.Name = "egress", p.o.Tenant, p.o.Subject,
		p.o.Session, p.o.Name
	e.Host, e.Port = audit.Clip(to.Host), to.Port
	var moved atomic.Int64
	out, err := p.dial(ctx, to, e)
	if err != nil {
		if fault.Is(err, fault.PermissionDenied) || fault.Is(err, fault.InvalidArgument) ||
			fault.Is(err, fault.Exhausted) {
			p.s.denied.Add(1)
		} else {
			p.s.failed.Add(1)
		}
		p.s.opts.Audit.Finish(e, nil, err)
		n.Refuse(err)
		return
	}
	p.s.opened.Add(1)
	p.reached(n, out)
	n.Accept()
	idle := time.AfterFunc(p.s.cfg.Idle, cut)
	defer idle.Stop()
	ends := context.AfterFunc(ctx, func() {
		_ = out.SetLinger(0)
		_ = out.Close()
		_ = n.Close()
	})
	var failed error // the error of the outbound direction
	sent := make(chan struct{})
	p.s.opts.Go(func() {
		defer close(sent)
		if failed = p.move(ctx, out, n, &moved, p.o.Out, idle); failed != nil {
			cut()
			return
		}
		_ = out.CloseWrite()
	})
	err = p.move(ctx, n, out, &moved, p.o.In, idle)
	if err == nil {
		err = n.CloseWrite()
	}
	if err != nil {
		cut()
	}
	<-sent
	if err == nil {
		err = failed
	}
	if ends() { // the connection was not cut
		_ = out.Close()
		n.Leave()
	} else if err == nil {
		err = fault.New(fault.Canceled, "egress", "the connection was cut")
	}
	e.Bytes = moved.Load()
	if known := (*fault.Error)(nil); err != nil && !errors.As(err, &known) {
		err = fault.New(fault.Canceled, "egress", "the connection was cut")
	}
	p.s.opts.Audit.Finish(e, nil, err)
}

// reached records the address of a connection. The rules may have changed while it was dialled.
func (p *Proxy) reached(n *client.Conn, out *net.TCPConn) {
	at, err := netip.ParseAddrPort(out.RemoteAddr().String())
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.open[n]
	if !ok || err != nil {
		return
	}
	c.reached = at.Addr()
	p.open[n] = c
	if p.rules.Denies(c.reached) {
		c.cut()
	}
}

// dial connects to a target if the rules allow it.
func (p *Proxy) dial(ctx context.Context, to wire.EgressTarget,
	e *audit.Record,
) (*net.TCPConn, error) {
	if err := p.asks.Wait(ctx); err != nil {
		return nil, fault.New(fault.Canceled, "egress", "the session has been paused")
	}
	p.o.Touch()
	target, err := egress.ParseTarget(to.Host, to.Port)
	if err != nil {
		return nil, err
	}
	e.Host = target.Host
	if p.o.Session != "" {
		if err := p.s.opts.Fenced(p.o.Session); err != nil {
			return nil, err
		}
	}
	if err := p.checkBytes(); err != nil {
		return nil, err
	}
	if err := p.s.opts.Audit.Announce(ctx, e); err != nil {
		return nil, err
	}
	p.mu.Lock()
	rules := p.rules
	p.mu.Unlock()
	c, address, err := p.s.cfg.Gate.Dial(ctx, rules, target)
	e.Address = address
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// checkBytes returns an error if the owner has reached its limit of bytes.
func (p *Proxy) checkBytes() error {
	if most := p.s.cfg.Bytes; most > 0 && p.used.Load() >= most {
		return fault.New(fault.Exhausted, "egress",
			"the %s has moved %d bytes, which is all that it may (egress.bytes)", p.o.Kind, most)
	}
	return nil
}

// move carries one direction to its end. It counts bytes before it writes them, and waits for the
// owner's rate.
func (p *Proxy) move(ctx context.Context, to io.Writer, from io.Reader, moved, meter *atomic.Int64,
	idle *time.Timer,
) error {
	buf := make([]byte, partSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.o.Touch()
			idle.Reset(p.s.cfg.Idle)
			if err := p.checkBytes(); err != nil {
				p.s.over.Add(1)
				return err
			}
			p.used.Add(int64(n))
			moved.Add(int64(n))
			meter.Add(int64(n))
			p.s.bytes.Add(int64(n))
			if p.rate != nil {
				if err := p.rate.WaitN(ctx, n); err != nil {
					return err
				}
				idle.Reset(p.s.cfg.Idle)
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
