package cli

import (
	"github.com/sandgate/sandgate/protocol"
)

// network is what a session is to be let out to; nil for nothing.
func network(all bool, hosts list) *protocol.Network {
	switch {
	case len(hosts) > 0:
		return &protocol.Network{Allow: hosts}
	case all:
		return &protocol.Network{}
	}
	return nil
}
