package wire

// MaxConns is how many connections to ports the agent holds at once.
const MaxConns = 256

// ConnWindow is the window of a connection, in each direction, in bytes.
const ConnWindow = 256 << 10

// MaxPorts is how many ports that programs listen on an agent reports. A longer list is Malformed.
const MaxPorts = 1024

// The operations on ports.
const (
	// OpPortDial: PortDial → {}, then Data frames on Channel both ways. FlagEnd
	// ends one direction, FlagAbort both at once.
	OpPortDial = "port.dial"
	OpPortList = "port.list" // → Ports
)

// PortDial names a TCP port that a program in the sandbox listens on.
type PortDial struct {
	Port int `json:"port"`
}

// Ports are the TCP ports that programs listen on.
type Ports struct {
	Ports []Port `json:"ports"`
}

// Port is a TCP port that a program listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"`
}
