package protocol

// The operations on volumes: named folders that outlive sessions.
const (
	OpVolumeCreate  = "volume.create"
	OpVolumeList    = "volume.list"
	OpVolumeGet     = "volume.get"
	OpVolumeDelete  = "volume.delete"
	OpVolumeLease   = "volume.lease"
	OpVolumeRelease = "volume.release"
)

// Limits of volumes.
const (
	MaxMounts       = 16   // volumes per session
	MaxLeaseSeconds = 3600 // longest duration of a lease, until it has to be renewed
)

// VolumeCreate makes a volume.
type VolumeCreate struct {
	// Name is unique among the caller's volumes: 1 to 64 letters, digits, dots, hyphens and
	// underscores. The first is a letter or a digit.
	Name string `json:"name"`
	// MaxBytes is the most that the volume may hold; 0 means the server's limit, which is also the
	// largest value.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// Volume is a volume as clients see it.
type Volume struct {
	Name      string `json:"name"`
	CreatedMS int64  `json:"created_ms"`
	MaxBytes  int64  `json:"max_bytes"`
	// Bytes is its size when it was last measured. Files is the number of its files and folders.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// Sessions is the number of sessions that use it, including hibernated ones.
	Sessions int `json:"sessions"`
	// Lease is the lease in force, if any.
	Lease *Lease `json:"lease,omitempty"`
}

// VolumeRef names a volume.
type VolumeRef struct {
	Name string `json:"name"`
}

// VolumeList is the caller's volumes, by name.
type VolumeList struct {
	Volumes []Volume `json:"volumes"`
	Missing []string `json:"missing,omitempty"`
}

// Mount says where a session has a volume.
type Mount struct {
	// Name is the volume's name. In the session the volume is the folder /volumes/NAME.
	Name string `json:"name"`
	// Path is where a link to that folder is created: a new name in the user's home, at any depth,
	// or directly below /. Empty means no link.
	Path     string `json:"path,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// VolumeLease takes or renews the lease of a volume. A volume has at most one lease. It is
// advisory: a session that does not ask for the lease can still use the volume.
type VolumeLease struct {
	Name string `json:"name"`
	// Holder names the holder for people, at most 128 bytes.
	Holder string `json:"holder,omitempty"`
	// TTLSeconds is the duration, 1 to 3,600; 0 means 60.
	TTLSeconds int64 `json:"ttl_seconds,omitempty"`
	// Token renews the lease with this token; 0 takes a new lease.
	Token uint64 `json:"token,omitempty"`
}

// VolumeRelease releases a lease.
type VolumeRelease struct {
	Name  string `json:"name"`
	Token uint64 `json:"token"`
}

// Lease is the agreed right of one session to use a shared volume.
type Lease struct {
	// Token grows with each new lease of the volume and never repeats. A holder that sees a larger
	// token has lost its lease.
	Token     uint64 `json:"token"`
	Holder    string `json:"holder,omitempty"`
	ExpiresMS int64  `json:"expires_ms"`
}
