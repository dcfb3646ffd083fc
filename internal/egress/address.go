package egress

import (
	"net"
	"net/netip"
	"slices"
)

// inside4 are the blocks of IPv4 without public hosts, from IANA's registry of special addresses,
// and the two public addresses at which clouds serve data that only their machines may read.
var inside4 = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32",
)

// public6 is the block of IPv6 with public hosts. inside6 are its blocks without public hosts: those
// that contain an IPv4 address (Teredo, 6to4) and those for documentation. All other IPv6 addresses
// are refused: loopback, link-local, unique local, multicast, mapped, and the prefixes of NAT64.
var (
	public6 = netip.MustParsePrefix("2000::/3")
	inside6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)

func prefixes(all ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, p := range all {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// public reports whether an address is a public address of the internet.
func public(a netip.Addr) bool {
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	if a.Zone() != "" {
		return false
	}
	if a.Is4() {
		return !slices.ContainsFunc(inside4, in)
	}
	return public6.Contains(a) && !slices.ContainsFunc(inside6, in)
}

// permits reports whether an address may be dialled: it is public and not this machine's own, or the
// operator has allowed it.
func (g *Gate) permits(a netip.Addr) bool {
	if slices.ContainsFunc(g.private, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return true
	}
	return public(a) && !slices.Contains(g.own(), a)
}

// ownAddresses returns the addresses of this machine's interfaces. If they cannot be read, it returns
// none, and only the check for public addresses applies.
func ownAddresses() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out
}
