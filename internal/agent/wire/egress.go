package wire

import "github.com/sandgate/sandgate/fault"

// A program that is let out speaks to the agent as to an HTTP proxy on a
// loopback port. The agent tells the host where it wants to go, by the event
// dial, and the host answers with OpOutbound. From then on Data goes both ways,
// as over a connection to a port.

// MaxEgress is how many programs' connections to the outside the agent holds
// at once.
const MaxEgress = 256

// EgressBase is where the numbers of these connections begin, which the
// agent gives. The host's are below.
const EgressBase = 1 << 31

// OpEgressAnswer answers an event dial: Answer, with the event's Channel and
// without an ID.
const OpEgressAnswer = "outbound"

// EgressTarget is where a program wants to go. Nothing is certain of it but that
// the port has 16 bits.
type EgressTarget struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// EgressAnswer lets a connection through, unless there is an error.
type EgressAnswer struct {
	Error *fault.Public `json:"error,omitempty"`
}

// NoProxy in place of a port has the agent listen for nobody any more.
const NoProxy = -1
