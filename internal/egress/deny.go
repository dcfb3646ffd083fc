package egress

import (
	"net/netip"
	"slices"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Rules are the hosts that may be reached, and the networks that may not.
type Rules struct {
	Allow List
	Deny  []netip.Prefix
}

// ParseNetworks reads addresses and networks. Errors name the field.
func ParseNetworks(field string, texts []string) ([]netip.Prefix, error) {
	const op = "egress.networks"
	if len(texts) > MaxPatterns {
		return nil, fault.Invalid(op, field, "a list has at most %d networks", MaxPatterns)
	}
	all := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, wrong := netip.ParseAddr(text); err != nil && wrong == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, fault.Invalid(op, field,
				"%.80q is neither an address nor a network such as 192.0.2.0/24", text)
		}
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// Denies reports whether an address is in a network that may not be reached.
func (r Rules) Denies(a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(r.Deny, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Allows reports whether a target may be reached, as far as its host says. A name is compared with
// the denied networks when it is resolved.
func (r Rules) Allows(t Target) bool {
	a, err := netip.ParseAddr(t.Host)
	return r.Allow.Allows(t) && (err != nil || !r.Denies(a))
}
