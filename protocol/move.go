package protocol

// The operations between gateways and nodes of a cluster. Clients cannot use them.
const (
	OpAdopt  = "session.adopt"
	OpParked = "session.parked"
	OpDrain  = "node.drain"
)

// Drained reports what happened to a node's sessions.
type Drained struct {
	// Parked is the number of sessions that other nodes can adopt. Stayed is the number of sessions
	// that could not be moved: they are hibernated on the node, or continue there.
	Parked int `json:"parked"`
	Stayed int `json:"stayed"`
}
