package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// maxAddresses is how many of a host's addresses are tried.
const maxAddresses = 4

// Config configures a Gate.
type Config struct {
	// Allow is the list of all hosts that any session may reach; empty means none.
	Allow []string
	// Private are networks that may be reached although they are not public.
	Private []netip.Prefix
	// Resolver is the address and port of the DNS server; empty means the machine's own.
	Resolver string
	// Timeout bounds the time until a connection is established. Default 10 s.
	Timeout time.Duration
	// Presets resolves the presets in lists. nil means that there are none.
	Presets *Presets
}

// Gate dials the hosts that may be reached.
type Gate struct {
	allow   List
	presets *Presets
	private []netip.Prefix
	timeout time.Duration
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	own     func() []netip.Addr
}

// New returns a gate.
func New(c Config) (*Gate, error) {
	hosts, err := c.Presets.expand("egress.allow", c.Allow)
	if err != nil {
		return nil, err
	}
	allow, err := ParseList("egress.allow", hosts)
	if err != nil {
		return nil, err
	}
	r := &net.Resolver{PreferGo: true}
	if c.Resolver != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, c.Resolver)
		}
	}
	g := &Gate{
		allow: allow, presets: c.Presets, private: c.Private, timeout: c.Timeout,
		own: ownAddresses,
	}
	if g.timeout == 0 {
		g.timeout = 10 * time.Second
	}
	g.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
		// The dot prevents search domains: only the name that was allowed is resolved.
		return r.LookupNetIP(ctx, "ip", host+".")
	}
	return g, nil
}

// Allowed returns the list of all hosts that any session may reach.
func (g *Gate) Allowed() List { return g.allow }

// ParseList reads patterns, as the function ParseList does, and resolves presets.
func (g *Gate) ParseList(field string, patterns []string) (List, error) {
	hosts, err := g.presets.expand(field, patterns)
	if err != nil {
		return nil, err
	}
	return ParseList(field, hosts)
}

// MavenRepository returns the URL of the repository for Java's packages, or "" if none is known.
func (g *Gate) MavenRepository() string { return g.presets.Repository() }

// Dial connects to a target that both the gate's list and the caller's rules allow. A name is
// resolved once, and only the addresses that were checked are dialled. address is the address that was
// reached, or the last one tried. Errors: PermissionDenied, NotFound, Unavailable,
// DeadlineExceeded.
func (g *Gate) Dial(ctx context.Context, rules Rules,
	t Target,
) (c net.Conn, address string, err error) {
	const op = "egress.dial"
	deny := func(cause fault.Cause, why string) error {
		return fault.New(fault.PermissionDenied, op, "%s %s", t, why).For(cause)
	}
	if !g.allow.Allows(t) {
		return nil, "", deny(fault.CauseEgress,
			"is not among what this server lets out (egress.allow)")
	}
	if !rules.Allow.Allows(t) {
		return nil, "", deny(fault.CauseSessionNetwork,
			"is not among what this session is let out to (network.allow)")
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	addresses, err := g.resolve(ctx, t)
	if err != nil {
		return nil, "", err
	}
	var may []netip.Addr
	denied := false
	for _, a := range addresses {
		address = a.String()
		switch {
		case rules.Denies(a):
			denied = true
		case g.permits(a) && len(may) < maxAddresses:
			may = append(may, a)
		}
	}
	if len(may) == 0 && denied {
		return nil, address, deny(fault.CauseSessionNetwork,
			"leads to an address that this session is not let out to (network.deny)")
	}
	if len(may) == 0 {
		return nil, address, deny(fault.CauseEgress,
			"leads to an address that is not public (insecure_egress_to_private_networks)")
	}
	d := net.Dialer{Timeout: max(g.timeout/time.Duration(len(may)), time.Second)}
	for _, a := range may {
		address = a.String()
		if c, err = d.DialContext(ctx, "tcp",
			netip.AddrPortFrom(a, uint16(t.Port)).String()); err == nil {
			return c, address, nil
		}
	}
	e := &fault.Error{
		Kind: fault.Unavailable, Op: op, Message: t.String() + " cannot be reached",
		Err: err,
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		e.Kind, e.Message = fault.DeadlineExceeded, t.String()+" does not answer"
	}
	return nil, address, e
}

// resolve returns a target's addresses.
func (g *Gate) resolve(ctx context.Context, t Target) ([]netip.Addr, error) {
	const op = "egress.resolve"
	if a, err := netip.ParseAddr(t.Host); err == nil {
		return []netip.Addr{a}, nil
	}
	all, err := g.lookup(ctx, t.Host)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return nil, &fault.Error{Kind: fault.NotFound, Op: op, Message: "there is no host " +
			t.Host, Err: err}
	case err != nil:
		return nil, &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the name " + t.Host +
			" cannot be resolved now", Err: err}
	}
	for i := range all {
		// The resolver returns IPv4 addresses as mapped addresses. The check applies to the
		// address that would be reached.
		all[i] = all[i].Unmap()
	}
	return all, nil
}
