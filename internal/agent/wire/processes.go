package wire

// The operations on all processes, including those that no channel started.
const (
	OpProcessList   = "process.list"   // → Processes
	OpProcessSignal = "process.signal" // SignalProcess → {}
)

// Processes are all processes of the sandbox, by number.
type Processes struct {
	Processes []Process `json:"processes"`
}

// Process describes a process.
type Process struct {
	PID  int `json:"pid"`
	PPID int `json:"ppid"`
	// User is the user's name, root, or a number.
	User string `json:"user"`
	// State is running, sleeping, waiting, stopped or zombie.
	State string `json:"state"`
	// CPU is the processor time that it has used, in milliseconds.
	CPU int64 `json:"cpu_ms"`
	// Memory is its resident size, in bytes.
	Memory  int64  `json:"memory_bytes"`
	Command string `json:"command"`
	// Channel is the number of its channel, or 0.
	Channel uint32 `json:"channel,omitempty"`
}

// SignalProcess sends a signal to one process of the user.
type SignalProcess struct {
	PID    int    `json:"pid"`
	Signal string `json:"signal"`
}
