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
	MaxMounts       = 16   // volumes of a session
	MaxLeaseSeconds = 3600 // of a lease, before it has to be renewed
)

// VolumeCreate makes a volume.
type VolumeCreate struct {
	// Name is unique among the caller's volumes: 1 to 64 letters, digits, dots,
	// hyphens and underscores, the first a letter or a digit.
	Name string `json:"name"`
	// MaxBytes is what it may hold; 0 means the server's limit, which is the
	// most.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// Volume is a volume as clients see it.
type Volume struct {
	Name      string `json:"name"`
	CreatedMS int64  `json:"created_ms"`
	MaxBytes  int64  `json:"max_bytes"`
	// Bytes is what it held when it was last measured, and Files how many files
	// and folders.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// Sessions are how many have it, hibernated ones included.
	Sessions int `json:"sessions"`
	// Lease is the one in force.
	Lease *Lease `json:"lease,omitempty"`
}

// VolumeRef names a volume.
type VolumeRef struct {
	Name string `json:"name"`
}

// VolumeList is the caller's volumes, by name.
type VolumeList struct {
	Volumes []Volume `json:"volumes"`
}

// Mount says where a session has a volume.
type Mount struct {
	// Name is the volume's. In the session it is the folder /volumes/NAME.
	Name string `json:"name"`
	// Path is where a link to that folder is made: a new name in the user's home,
	// at any depth, or directly below /. Empty means no link.
	Path     string `json:"path,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// VolumeLease takes the lease of a volume, or renews it. A volume has at most
// one. It is advisory: nothing is kept from a session that does not ask.
type VolumeLease struct {
	Name string `json:"name"`
	// Holder says to people who has it, at most 128 bytes.
	Holder string `json:"holder,omitempty"`
	// TTLSeconds is for how long, 1 to 3,600; 0 means 60.
	TTLSeconds int64 `json:"ttl_seconds,omitempty"`
	// Token renews the lease that has it; 0 takes a new one.
	Token uint64 `json:"token,omitempty"`
}

// VolumeRelease gives a lease back.
type VolumeRelease struct {
	Name  string `json:"name"`
	Token uint64 `json:"token"`
}

// Lease is the right to a volume that those who share it agree on.
type Lease struct {
	// Token grows with each lease that is taken of the volume, for ever: who is
	// told of a greater one has lost theirs.
	Token     uint64 `json:"token"`
	Holder    string `json:"holder,omitempty"`
	ExpiresMS int64  `json:"expires_ms"`
}
