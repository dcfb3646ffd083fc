package protocol

// The operations between gateways and nodes of a cluster. No client is offered
// them.
const (
	OpAdopt  = "session.adopt"  // SessionRef → Session; of a parked session
	OpParked = "session.parked" // → SessionList; what no node has at present
	OpDrain  = "node.drain"     // → Drained; once the node has no session left that can go
)

// Drained is what became of a node's sessions.
type Drained struct {
	// Parked sessions can be had by other nodes. Stayed ones could not go:
	// they are hibernated on the node, or go on.
	Parked int `json:"parked"`
	Stayed int `json:"stayed"`
}
