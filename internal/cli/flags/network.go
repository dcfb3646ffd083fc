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
