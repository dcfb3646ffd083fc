package protocol

// The operations on all processes of a session, including those that its programs started.
const (
	OpProcessList   = "process.list"
	OpProcessSignal = "process.signal"
)

// ProcessList lists all processes in a session's sandbox, sorted by number.
type ProcessList struct {
	Processes []Process `json:"processes"`
}

// Process is one process.
type Process struct {
	PID  int `json:"pid"`
	PPID int `json:"ppid"`
	// User is the user's name, root, or a number.
	User string `json:"user"`
	// State is running, sleeping, waiting, stopped or zombie.
	State string `json:"state"`
	// CPUMS is the processor time that it has used, in milliseconds.
	CPUMS int64 `json:"cpu_ms"`
	// Memory is the memory that it uses, in bytes.
	Memory int64 `json:"memory_bytes"`
	// Command is the beginning of its command line, at most 256 bytes.
	Command string `json:"command"`
	// Channel is the channel that it belongs to, directly or through a parent process.
	Channel string `json:"channel,omitempty"`
}

// ProcessSignal sends a signal to one process of the user's.
type ProcessSignal struct {
	Session string `json:"session"`
	PID     int    `json:"pid"`
	Signal  string `json:"signal"`
}
