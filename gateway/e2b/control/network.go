package control

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// allTraffic are the destinations that stand for all.
var allTraffic = []string{"0.0.0.0/0", "::/0"}

// networkRequest is the network configuration of a request.
type networkRequest struct {
	AllowOut []string `json:"allowOut"`
	DenyOut  []string `json:"denyOut"`
	Public   *bool    `json:"allowPublicTraffic"`
	// This server does not offer the following.
	MaskHost    string                     `json:"maskRequestHost"`
	Rules       map[string]json.RawMessage `json:"rules"`
	EgressProxy json.RawMessage            `json:"egressProxy"`
	HTTPSPorts  []int                      `json:"httpsPorts"`
}

// offered returns an error for an option that this server does not offer.
func (n *networkRequest) offered() error {
	switch {
	case n.MaskHost != "":
		return unsupported("network.maskRequestHost", "programs see the host of the request here")
	case len(n.Rules) > 0:
		return unsupported("network.rules", "this server does not change requests of sandboxes")
	case len(n.EgressProxy) > 0 && string(n.EgressProxy) != "null":
		return unsupported("network.egressProxy", "sandboxes use the proxy of this server only")
	case len(n.HTTPSPorts) > 0:
		return unsupported("network.httpsPorts", "programs in sandboxes are reached by HTTP")
	}
	return nil
}

// egress returns the network of a session. Without a request it is everything that the server
// allows. A list of allowed destinations counts only if all others are denied: this API lets a
// destination out that no list names. Errors: InvalidArgument, Unsupported.
func egress(internet *bool, n *networkRequest) (*protocol.Network, error) {
	if n == nil {
		n = new(networkRequest)
	}
	if err := n.offered(); err != nil {
		return nil, err
	}
	closed := internet != nil && !*internet
	var deny []string
	for _, to := range n.DenyOut {
		if slices.Contains(allTraffic, to) {
			closed = true
			continue
		}
		block, err := netip.ParsePrefix(to)
		if a, wrong := netip.ParseAddr(to); err != nil && wrong == nil {
			block, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, invalid("network.denyOut", "%.80q is neither an address nor a network", to)
		}
		deny = append(deny, block.Masked().String())
	}
	allow := make([]string, 0, len(n.AllowOut))
	for _, to := range n.AllowOut {
		if slices.Contains(allTraffic, to) {
			closed = false
			continue
		}
		host, err := destination(to)
		if err != nil {
			return nil, err
		}
		allow = append(allow, host)
	}
	switch {
	case closed && len(allow) == 0:
		return &protocol.Network{Off: true}, nil
	case closed: // this API gives the allowed destinations precedence
		return &protocol.Network{Allow: allow}, nil
	case len(deny) > 0 && len(allow) > 0:
		return nil, unsupported("network.allowOut",
			"this server has no exceptions from denied networks; deny all destinations (%s)",
			allTraffic[0])
	}
	return &protocol.Network{Deny: deny}, nil
}

// destination returns an allowed destination as a pattern of native lists. A block of addresses is
// allowed if it has one address.
func destination(to string) (string, error) {
	block, err := netip.ParsePrefix(to)
	switch {
	case err != nil && strings.Contains(to, "/"), to == "":
		return "", invalid("network.allowOut", "%.80q is not a host or an address", to)
	case err != nil:
		return to, nil
	case !block.IsSingleIP():
		return "", invalid("network.allowOut",
			"this server allows hosts and single addresses, not the block %.80q", to)
	}
	return block.Addr().String(), nil
}

// networkOf describes the network of a session.
func networkOf(n *protocol.Network) (b networkBody) {
	switch {
	case n == nil, n.Off:
		b.DenyOut = []string{allTraffic[0]}
	case n.Allow != nil && !slices.Contains(n.Allow, "*"):
		b.AllowOut, b.DenyOut = n.Allow, append([]string{allTraffic[0]}, n.Deny...)
	default:
		b.DenyOut = n.Deny
	}
	return b
}
