package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of what sessions ask for outside, beside those of Egress.
const (
	// asks is how many connections a session may ask for in a second, and
	// askBurst how many at once. Further ones wait.
	asks     = 50
	askBurst = 200
	// outPart is how much of a connection is carried at a time, in bytes.
	outPart = 64 << 10
)

// Egress says what sessions may reach outside, and how much of it. The zero
// value lets nobody out.
type Egress struct {
	// Gate decides and dials. nil lets nobody out.
	Gate *egress.Gate
	// Tenants are those whose sessions may be let out; nil means all.
	Tenants []string
	// Port is the loopback port in the sandbox where programs find the way
	// out. Default 3128.
	Port int
	// Connections is how many a session has at once. Default 64, at most
	// agent.MaxOutbound.
	Connections int
	// Rate is how many bytes a second a session moves, both ways together;
	// Bytes how many in all. 0 means no limit.
	Rate, Bytes int64
	// Idle is how long a connection may carry nothing. Default 5 min.
	Idle time.Duration
}

// outlet is the way out of a session, or of the build of a template. Its lock is
// taken alone.
type outlet struct {
	m *Manager
	// what is session or build; tenant, subject, id and name are those of the
	// audit log, id the session's, name the template's.
	what                      string
	tenant, subject, id, name string
	// life ends with it, and touch notes that it is of use.
	life  context.Context
	touch func()
	// in and out are what is metered.
	in, out *atomic.Int64

	asked protocol.Network
	list  egress.List
	rate  *rate.Limiter // nil for none
	asks  *rate.Limiter
	used  atomic.Int64 // bytes, both ways

	mu     sync.Mutex // guards all below
	open   map[*client.Conn]context.CancelFunc
	closed bool
}

// checkNetwork returns what a tenant's session is let out to, or the build of a
// template; nil for nothing. field is where it was asked for.
func (m *Manager) checkNetwork(op, field, tenant string, asked *protocol.Network) (*protocol.Network, error) {
	if asked == nil || asked.Off {
		return nil, nil
	}
	server := m.cfg.Egress.Gate.Allowed()
	switch {
	case len(server) == 0:
		return nil, &fault.Error{Kind: fault.PermissionDenied, Op: op, Field: field, Message: "this server lets nothing out (egress.allow)"}
	case m.cfg.Egress.Tenants != nil && !slices.Contains(m.cfg.Egress.Tenants, tenant):
		return nil, &fault.Error{Kind: fault.PermissionDenied, Op: op, Field: field, Message: "this server does not let your tenant out (egress.tenants)"}
	case asked.Allow == nil:
		return asked, nil
	case len(asked.Allow) == 0:
		return nil, fault.Invalid(op, field+".allow", "the list names no host; true means all that the server lets out, false nothing")
	}
	list, err := egress.ParseList(field+".allow", asked.Allow)
	if err != nil {
		return nil, err
	}
	if host, beyond := server.Beyond(list); beyond {
		return nil, &fault.Error{Kind: fault.PermissionDenied, Op: op, Field: field + ".allow", Message: fmt.Sprintf("%s is beyond what this server lets out (egress.allow)", host)}
	}
	return &protocol.Network{Allow: list.Strings()}, nil
}

// letOut gives the session a way out, if it is to have one. Preconditions: no
// program runs in it that was promised one.
func (s *Session) letOut(n *protocol.Network, used int64) error {
	if n == nil || n.Off {
		return nil
	}
	o := &outlet{
		m: s.m, what: "session", tenant: s.spec.Tenant, subject: s.spec.Subject, id: s.spec.ID,
		life: s.life, touch: s.Touch, in: &s.meter.NetIn, out: &s.meter.NetOut,
	}
	o.used.Store(used)
	if err := o.begin(*n); err != nil {
		return err
	}
	s.outlet = o
	s.agent.Egress.Handle(o.take)
	return nil
}

// begin makes an outlet ready for what was asked for, which has been checked.
func (o *outlet) begin(n protocol.Network) (err error) {
	o.asked, o.asks, o.open = n, rate.NewLimiter(asks, askBurst), map[*client.Conn]context.CancelFunc{}
	if o.list = o.m.cfg.Egress.Gate.Allowed(); n.Allow != nil {
		if o.list, err = egress.ParseList("network.allow", n.Allow); err != nil {
			return err
		}
	}
	if r := o.m.cfg.Egress.Rate; r > 0 {
		o.rate = rate.NewLimiter(rate.Limit(r), int(max(r, outPart)))
	}
	return nil
}

// network is what the session is let out to, as clients see it.
func (s *Session) network() *protocol.Network {
	if s.outlet == nil {
		return nil
	}
	return &protocol.Network{Allow: s.outlet.list.Strings()}
}

// wayOut are the variables by which programs find the proxy on a port. Those
// of theirs win. Node's own fetch takes them at its start alone, and when told.
func wayOut(port int, theirs map[string]string) map[string]string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(port)
	const direct = "localhost,127.0.0.1,::1"
	env := map[string]string{
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": direct,
		"http_proxy": proxy, "https_proxy": proxy, "no_proxy": direct,
		"NODE_USE_ENV_PROXY": "1",
	}
	maps.Copy(env, theirs)
	return env
}

// reseedFor makes a machine one of its own, with the way out that it is to have.
func (m *Manager) reseedFor(ctx context.Context, mb *warm.Instance, n *protocol.Network, env map[string]string) error {
	if n == nil {
		return mb.Reseed(ctx, env, 0)
	}
	return mb.Reseed(ctx, wayOut(m.cfg.Egress.Port, env), m.cfg.Egress.Port)
}

// take takes a connection that a program asks for. It is called by the one
// who reads the wire.
func (o *outlet) take(to wire.EgressTarget, n *client.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	most := o.m.cfg.Egress.Connections
	switch {
	case o.closed:
		n.Refuse(fault.New(fault.Unavailable, "egress", "the %s has ended", o.what))
	case len(o.open) >= most:
		o.m.count.egressDenied.Add(1)
		n.Refuse(fault.New(fault.Exhausted, "egress", "the %s has %d connections, which is the most there may be (egress.connections)", o.what, most))
	default:
		ctx, cancel := context.WithCancel(o.life)
		o.open[n] = cancel
		o.m.work.Go(func() {
			defer func() {
				cancel()
				o.mu.Lock()
				delete(o.open, n)
				o.mu.Unlock()
			}()
			o.carry(ctx, cancel, to, n)
		})
	}
}

// cut ends all connections, as a reset on both sides: a session that rests has
// none. final refuses further ones.
func (o *outlet) cut(final bool) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = o.closed || final
	for _, cancel := range o.open {
		cancel()
	}
}

// carry connects a program to where it wants to go, and carries bytes until
// both directions have ended. ctx ends when it is cut.
func (o *outlet) carry(ctx context.Context, cut context.CancelFunc, to wire.EgressTarget, n *client.Conn) {
	e := &audit.Record{Began: time.Now()}
	e.Event, e.Tenant, e.Subject, e.Session, e.Name = "egress", o.tenant, o.subject, o.id, o.name
	e.Host, e.Port = audit.Clip(to.Host), to.Port
	var moved atomic.Int64
	out, err := o.dial(ctx, to, e)
	if err != nil {
		if fault.Is(err, fault.PermissionDenied) || fault.Is(err, fault.InvalidArgument) || fault.Is(err, fault.Exhausted) {
			o.m.count.egressDenied.Add(1)
		} else {
			o.m.count.egressFailed.Add(1)
		}
		o.m.cfg.Audit.Finish(e, nil, err)
		n.Refuse(err)
		return
	}
	o.m.count.egressOpened.Add(1)
	n.Accept()
	idle := time.AfterFunc(o.m.cfg.Egress.Idle, cut)
	defer idle.Stop()
	ends := context.AfterFunc(ctx, func() {
		_ = out.SetLinger(0)
		_ = out.Close()
		_ = n.Close()
	})
	var failed error // of the direction out
	sent := make(chan struct{})
	o.m.work.Go(func() {
		defer close(sent)
		if failed = o.move(ctx, out, n, &moved, o.out, idle); failed != nil {
			cut()
			return
		}
		_ = out.CloseWrite()
	})
	err = o.move(ctx, n, out, &moved, o.in, idle)
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
	if ends() { // nobody has cut it
		_ = out.Close()
		n.Leave()
	} else if err == nil {
		err = fault.New(fault.Canceled, "egress", "the connection was cut")
	}
	e.Bytes = moved.Load()
	if known := (*fault.Error)(nil); err != nil && !errors.As(err, &known) {
		err = fault.New(fault.Canceled, "egress", "the connection was cut")
	}
	o.m.cfg.Audit.Finish(e, nil, err)
}

// dial connects to where a program wants to go, if it may.
func (o *outlet) dial(ctx context.Context, to wire.EgressTarget, e *audit.Record) (*net.TCPConn, error) {
	if err := o.asks.Wait(ctx); err != nil {
		return nil, fault.New(fault.Canceled, "egress", "the session has come to rest")
	}
	o.touch()
	target, err := egress.ParseTarget(to.Host, to.Port)
	if err != nil {
		return nil, err
	}
	e.Host = target.Host
	if o.id != "" {
		if err := o.m.fenced(o.id); err != nil {
			return nil, err
		}
	}
	if err := o.within(); err != nil {
		return nil, err
	}
	if err := o.m.cfg.Audit.Announce(ctx, e); err != nil {
		return nil, err
	}
	c, address, err := o.m.cfg.Egress.Gate.Dial(ctx, o.list, target)
	e.Address = address
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// within refuses a session that has used up what it may move.
func (o *outlet) within() error {
	if most := o.m.cfg.Egress.Bytes; most > 0 && o.used.Load() >= most {
		return fault.New(fault.Exhausted, "egress", "the %s has moved %d bytes, which is all that it may (egress.bytes)", o.what, most)
	}
	return nil
}

// move carries one direction to its end. Bytes are counted before they go on,
// and wait for the session's rate.
func (o *outlet) move(ctx context.Context, to io.Writer, from io.Reader, moved, meter *atomic.Int64, idle *time.Timer) error {
	buf := make([]byte, outPart)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			o.touch()
			idle.Reset(o.m.cfg.Egress.Idle)
			if err := o.within(); err != nil {
				o.m.count.egressOver.Add(1)
				return err
			}
			o.used.Add(int64(n))
			moved.Add(int64(n))
			meter.Add(int64(n))
			o.m.count.egressBytes.Add(int64(n))
			if o.rate != nil {
				if err := o.rate.WaitN(ctx, n); err != nil {
					return err
				}
				idle.Reset(o.m.cfg.Egress.Idle)
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
