package protocol

// The operations between gateways and nodes of a cluster. No client is offered
// them.
const (
	OpAdopt  = "session.adopt"
	OpParked = "session.parked"
	OpDrain  = "node.drain"
)

// Drained is what became of a node's sessions.
type Drained struct {
	// Parked sessions can be had by other nodes. Stayed ones could not go:
	// they are hibernated on the node, or go on.
	Parked int `json:"parked"`
	Stayed int `json:"stayed"`
}
