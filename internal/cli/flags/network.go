package flags

import (
	"github.com/sandgate/sandgate/protocol"
)

// Network returns the network that a session asks for; nil for none.
func Network(all bool, hosts List) *protocol.Network {
	switch {
	case len(hosts) > 0:
		return &protocol.Network{Allow: hosts}
	case all:
		return &protocol.Network{}
	}
	return nil
}

// Egress returns the network that a list of hosts stands for. The lists "all" and "none" stand for
// everything that the server allows, and for nothing.
func Egress(hosts List) *protocol.Network {
	if len(hosts) == 1 && hosts[0] == "all" {
		return &protocol.Network{}
	}
	if len(hosts) == 1 && hosts[0] == "none" {
		return &protocol.Network{Off: true}
	}
	return &protocol.Network{Allow: hosts}
}
