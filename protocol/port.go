package protocol

// The operations on ports. OpPortOpen has a link of its own and is offered to
// clients over HTTP alone.
const (
	OpPortOpen = "port.open"
	OpPortList = "port.list"
)

// EventPort: a program in the session of an attached channel has begun to
// listen on a port, or ended; Params is PortChange.
const EventPort = "port"

// PortRef names a TCP port in a session's sandbox.
type PortRef struct {
	Session string `json:"session"`
	Port    int    `json:"port"`
}

// Port is a TCP port that a program listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"`
}

// PortList is what programs in a session listen on, by number.
type PortList struct {
	Ports []Port `json:"ports"`
}

// PortChange tells of a port that has been opened or closed.
type PortChange struct {
	Session string `json:"session"`
	Port
	Open bool `json:"open"`
}
