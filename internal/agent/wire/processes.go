package wire

// The operations on processes, whoever started them.
const (
	OpProcessList   = "process.list"   // → Processes
	OpProcessSignal = "process.signal" // SignalProcess → {}
)

// Processes are all that run in the sandbox, by number.
type Processes struct {
	Processes []Process `json:"processes"`
}

// Process is one of them.
type Process struct {
	PID  int `json:"pid"`
	PPID int `json:"ppid"`
	// User is the user's name, root, or a number.
	User string `json:"user"`
	// State is running, sleeping, waiting, stopped or zombie.
	State string `json:"state"`
	// CPU is the processor time it has had, in milliseconds.
	CPU int64 `json:"cpu_ms"`
	// Memory is what it holds in memory, in bytes.
	Memory  int64  `json:"memory_bytes"`
	Command string `json:"command"`
	// Channel is the number of the channel that it belongs to; 0 for none.
	Channel uint32 `json:"channel,omitempty"`
}

// SignalProcess sends a signal to one process of the user's.
type SignalProcess struct {
	PID    int    `json:"pid"`
	Signal string `json:"signal"`
}
