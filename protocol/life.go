package protocol

// The operations on the life cycle of a session, in addition to those in protocol.go.
const (
	OpSessionUpdate    = "session.update"
	OpSessionPause     = "session.pause"
	OpSessionKeepalive = "session.keepalive"
)

// Never, as a number of seconds in a policy, means that its effect does not happen.
const Never = -1

// Values of OnExpiry in SessionCreate and SessionUpdate: what happens to a session at the end of its
// lifetime. Session.OnExpiry is absent for OnExpiryDelete.
const (
	OnExpiryDelete    = "delete"
	OnExpiryHibernate = "hibernate"
	OnExpirySuspend   = "suspend"
)

// Values of Session.ExpiresReason.
const (
	ExpiresByLifetime = "lifetime"
	ExpiresByIdleness = "idle"
)

// SessionUpdate changes properties of a session. A field that is nil stays as it is.
type SessionUpdate struct {
	Session string `json:"session"`
	// Name is at most 128 bytes.
	Name *string `json:"name,omitempty"`
	// IdlePauseSeconds, IdleHibernateSeconds, IdleDeleteSeconds and KeepAlive are as in
	// SessionCreate.
	IdlePauseSeconds     *int64 `json:"idle_pause_seconds,omitempty"`
	IdleHibernateSeconds *int64 `json:"idle_hibernate_seconds,omitempty"`
	IdleDeleteSeconds    *int64 `json:"idle_delete_seconds,omitempty"`
	KeepAlive            *bool  `json:"keep_alive,omitempty"`
	// LifetimeSeconds ends the session that long after now, but never later than the server's
	// longest lifetime after the session's creation; -1 (Never) means never.
	LifetimeSeconds *int64 `json:"lifetime_seconds,omitempty"`
	// OnExpiry is as in SessionCreate.
	OnExpiry *string `json:"on_expiry,omitempty"`
	// Labels replace all labels of the session, except those that the server has set. {} removes
	// them.
	Labels *map[string]string `json:"labels,omitempty"`
	// Network is as in SessionCreate, for a session that was created with a network. Connections to
	// hosts that are not allowed any more are cut; false cuts all of them.
	Network *Network `json:"network,omitempty"`
}

// SessionHibernate writes a session to disk.
type SessionHibernate struct {
	Session string `json:"session"`
	// Suspend means that only session.resume resumes the session. Other requests that need its
	// sandbox are a conflict with the cause suspended.
	Suspend bool `json:"suspend,omitempty"`
}

// SessionKeepalive reports that a client still uses the session. The session counts as busy for the
// given time.
type SessionKeepalive struct {
	Session string `json:"session"`
	// Seconds is that time; 0 means that the session only counts as busy at this moment.
	Seconds int64 `json:"seconds,omitempty"`
}

// Limits bound the resources of a session. A field that is 0 takes the template's value, or else
// the server's.
type Limits struct {
	// MemoryBytes is the memory for the programs of the session. Its files are in memory too: see
	// SandboxBytes.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// CPUs is a number of processors; it can be fractional.
	CPUs float64 `json:"cpus,omitempty"`
	// Processes bounds the number of processes and threads. Above it, programs get EAGAIN.
	Processes int `json:"processes,omitempty"`
	// OpenFiles bounds the open files of one process. Above it, programs get EMFILE.
	OpenFiles int `json:"open_files,omitempty"`
	// DiskBytes bounds the bytes written outside /tmp, TmpBytes the bytes written to /tmp. Above
	// them, programs get ENOSPC.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	TmpBytes  int64 `json:"tmp_bytes,omitempty"`
	// Inodes bounds the number of files and folders in /tmp, in /dev/shm and outside both,
	// separately for each. Above it, programs get ENOSPC.
	Inodes int64 `json:"inodes,omitempty"`
	// OutputBytesPerSecond bounds the output of each channel. A program that prints faster has to
	// wait.
	OutputBytesPerSecond int64 `json:"output_bytes_per_second,omitempty"`
	// CellSeconds is how long a cell may run. Then it is interrupted.
	CellSeconds int64 `json:"cell_seconds,omitempty"`
}

// fixedBytes is the memory of a sandbox beside its limits: 64 MiB of /dev/shm, and 96 MiB of gVisor.
const fixedBytes = 160 << 20

// SandboxBytes returns the most memory that a sandbox takes: that of its programs, of its files and
// of gVisor. Programs may use what the files leave. A session that exceeds it is lost with the reason
// memory. Quotas count it.
func (l Limits) SandboxBytes() int64 {
	return l.MemoryBytes + l.DiskBytes + l.TmpBytes + fixedBytes
}

// Usage is the resource usage of a session's sandbox, including its files and gVisor itself.
type Usage struct {
	MemoryBytes     int64 `json:"memory_bytes"`
	MemoryPeakBytes int64 `json:"memory_peak_bytes,omitempty"`
	// MemoryMaxBytes is the most that MemoryBytes can be: the session is lost beyond it.
	MemoryMaxBytes int64 `json:"memory_max_bytes,omitempty"`
	CPUMS          int64 `json:"cpu_ms"`
	Tasks          int64 `json:"tasks"`
}

// Reached is the content of an event record, or a part of Lost, when a limit was reached.
type Reached struct {
	// Limit is the name of a field of Limits, lifetime_seconds or idle_delete_seconds.
	Limit string `json:"limit"`
	// Max is the limit's value, in that field's unit.
	Max int64 `json:"max"`
	// Lost states in a sentence what was lost; empty means nothing.
	Lost string `json:"lost,omitempty"`
}
