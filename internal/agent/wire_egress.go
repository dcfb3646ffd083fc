package agent

import "github.com/sandgate/sandgate/fault"

// A program that is let out speaks to the agent as to an HTTP proxy on a
// loopback port. The agent tells the host where it wants to go, by the event
// dial, and the host answers with OpOutbound. From then on Data goes both ways,
// as over a connection to a port.

// MaxOutbound is how many programs' connections to the outside the agent holds
// at once.
const MaxOutbound = 256

// outboundBase is where the numbers of these connections begin, which the
// agent gives. The host's are below.
const outboundBase = 1 << 31

// OpOutbound answers an event dial: Answer, with the event's Channel and
// without an ID.
const OpOutbound = "outbound"

// Outbound is where a program wants to go. Nothing is certain of it but that
// the port has 16 bits.
type Outbound struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// Answer lets a connection through, unless there is an error.
type Answer struct {
	Error *fault.Public `json:"error,omitempty"`
}

// NoProxy in place of a port has the agent listen for nobody any more.
const NoProxy = -1
