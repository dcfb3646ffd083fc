// Package egress decides what a sandbox may reach outside, and dials it. It
// knows names, addresses and lists; who asks, and what then goes over a
// connection, is its callers' affair.
package egress

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/fault"
)

// Limits of a list.
const (
	MaxPatterns = 256 // in one list
	maxName     = 253 // bytes of a host's name
	maxLabel    = 63  // bytes of one of its parts
)

// usual are the ports of a pattern that names none.
var usual = [...]int{80, 443}

// Pattern is a part of a list: hosts, and a port of theirs.
type Pattern struct {
	// name is *, an address, a host's name, or what the names of hosts end in
	// behind their first dot, if below is set.
	name  string
	below bool
	port  int // 0 for the usual ones
}

// List says what may be reached. The empty one says nothing.
type List []Pattern

// ParseList reads patterns: a host, *.domain for all hosts below a domain, or *
// for all; behind it, :port where that is not 80 or 443. field is named in the
// error.
func ParseList(field string, patterns []string) (List, error) {
	const op = "egress.list"
	if len(patterns) > MaxPatterns {
		return nil, fault.Invalid(op, field, "a list has at most %d hosts", MaxPatterns)
	}
	l := make(List, 0, len(patterns))
	for _, text := range patterns {
		p, err := parsePattern(text)
		if err != nil {
			return nil, fault.Invalid(op, field, "%.80q: %s", text, fault.PublicOf(err).Message)
		}
		l = append(l, p)
	}
	return l, nil
}

func parsePattern(text string) (p Pattern, err error) {
	name, port, err := cutPort(text)
	if err != nil {
		return p, err
	}
	p.port = port
	if name == "*" {
		p.name = name
		return p, nil
	}
	rest, below := strings.CutPrefix(name, "*.")
	if p.name, err = Host(rest); err != nil {
		return p, err
	}
	if _, err := netip.ParseAddr(p.name); err == nil && below {
		return p, bad("an address has nothing below it")
	}
	p.below = below
	return p, nil
}

// String is the pattern as ParseList reads it.
func (p Pattern) String() string {
	s := p.name
	if p.below {
		s = "*." + s
	}
	if strings.Contains(s, ":") {
		s = "[" + s + "]"
	}
	if p.port != 0 {
		s += ":" + strconv.Itoa(p.port)
	}
	return s
}

// Strings are the patterns as ParseList reads them.
func (l List) Strings() []string {
	out := make([]string, len(l))
	for i, p := range l {
		out[i] = p.String()
	}
	return out
}

// Allows reports whether a target is in the list.
func (l List) Allows(t Target) bool {
	return slices.ContainsFunc(l, func(p Pattern) bool { return p.hasPort(t.Port) && p.hasName(t.Host, false) })
}

// Beyond returns the first pattern of o of which a part is not in the list.
func (l List) Beyond(o List) (p Pattern, some bool) {
	for _, p := range o {
		ports := usual[:]
		if p.port != 0 {
			ports = []int{p.port}
		}
		for _, port := range ports {
			if !slices.ContainsFunc(l, func(q Pattern) bool { return q.hasPort(port) && q.hasName(p.name, p.below) }) {
				return p, true
			}
		}
	}
	return p, false
}

func (p Pattern) hasPort(port int) bool {
	return p.port == port || p.port == 0 && slices.Contains(usual[:], port)
}

// hasName reports whether the pattern has the host with a name, or, with below,
// all hosts below it.
func (p Pattern) hasName(name string, below bool) bool {
	switch {
	case p.name == "*":
		return true
	case name == "*":
		return false
	case p.below:
		return strings.HasSuffix(name, "."+p.name) || below && name == p.name
	}
	return !below && name == p.name
}
