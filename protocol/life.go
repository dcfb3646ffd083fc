package protocol

// The operations on a session's life, beside those of protocol.go.
const (
	OpSessionUpdate    = "session.update"
	OpSessionPause     = "session.pause"
	OpSessionKeepalive = "session.keepalive"
)

// Never, as a number of idle seconds, means that idleness has no such effect.
const Never = -1

// SessionUpdate changes what may change of a session; what is nil stays.
type SessionUpdate struct {
	Session string `json:"session"`
	// Name is at most 128 bytes.
	Name *string `json:"name,omitempty"`
	// IdlePauseSeconds, IdleHibernateSeconds and KeepAlive are as in
	// SessionCreate.
	IdlePauseSeconds     *int64 `json:"idle_pause_seconds,omitempty"`
	IdleHibernateSeconds *int64 `json:"idle_hibernate_seconds,omitempty"`
	KeepAlive            *bool  `json:"keep_alive,omitempty"`
	// LifetimeSeconds ends the session that long after now, and at most the
	// server's longest lifetime after its creation.
	LifetimeSeconds *int64 `json:"lifetime_seconds,omitempty"`
}

// SessionKeepalive says that somebody still wants the session: for that long
// it counts as at work.
type SessionKeepalive struct {
	Session string `json:"session"`
	// Seconds is how long; 0 means that it counts as at work just now.
	Seconds int64 `json:"seconds,omitempty"`
}

// Limits are what a session may use. A zero field is the template's, or else
// the server's.
type Limits struct {
	// MemoryBytes is the memory of all its programs together. A breach ends
	// the session as lost, with the reason memory.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// CPUs is a number of processors, in fractions.
	CPUs float64 `json:"cpus,omitempty"`
	// Processes are processes and threads: EAGAIN.
	Processes int `json:"processes,omitempty"`
	// OpenFiles are those of one process: EMFILE.
	OpenFiles int `json:"open_files,omitempty"`
	// DiskBytes is what may be written outside /tmp, TmpBytes what into it:
	// ENOSPC.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	TmpBytes  int64 `json:"tmp_bytes,omitempty"`
	// Inodes are files and folders in /tmp, in /dev/shm, and outside them, each
	// for itself: ENOSPC.
	Inodes int64 `json:"inodes,omitempty"`
	// OutputBytesPerSecond is what each channel may print; who prints faster
	// waits.
	OutputBytesPerSecond int64 `json:"output_bytes_per_second,omitempty"`
	// CellSeconds is how long a cell may run before it is interrupted.
	CellSeconds int64 `json:"cell_seconds,omitempty"`
}

// Usage is what a session's sandbox uses, gVisor's own part included.
type Usage struct {
	MemoryBytes     int64 `json:"memory_bytes"`
	MemoryPeakBytes int64 `json:"memory_peak_bytes,omitempty"`
	CPUMS           int64 `json:"cpu_ms"`
	Tasks           int64 `json:"tasks"`
}

// Reached is the content of an event record or a Lost that tells of a limit.
type Reached struct {
	// Limit is the name of a field of Limits, or lifetime_seconds.
	Limit string `json:"limit"`
	// Max is what it allows, in that field's unit.
	Max int64 `json:"max"`
	// Lost says what that has cost, in a sentence; empty means nothing.
	Lost string `json:"lost,omitempty"`
}
