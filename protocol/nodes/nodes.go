// Package nodes has the types of the operations on the nodes of a server, for its operators and
// gateways.
package nodes

// The states of a node.
const (
	// Ready nodes take sessions.
	Ready = "ready"
	// Draining nodes take no sessions and move theirs to other nodes.
	Draining = "draining"
	// Drained nodes take no sessions. Those that could not move are still there.
	Drained = "drained"
	// Unreachable nodes have a valid lease and do not answer. They are described as they described
	// themselves last.
	Unreachable = "unreachable"
)

// NodeInfo describes a node.
type NodeInfo struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state"`
	// Address is where gateways reach the node, and Zone its place; both only in a cluster.
	Address string `json:"address,omitempty"`
	Zone    string `json:"zone,omitempty"`
	// StartedMS is when the node was started.
	StartedMS int64 `json:"started_ms,omitempty"`
	// Movable is true if other nodes can take the node's sessions, so that it can be drained.
	Movable bool `json:"movable"`
	// Sessions is the number of sessions that have a sandbox, and Places how many can have one.
	// Hibernated is the number of sessions on the node's disk.
	Sessions   int `json:"sessions"`
	Places     int `json:"places"`
	Hibernated int `json:"hibernated"`
	// Ready is the number of warm sandboxes of all pools, and PoolSize how many there should be.
	// PoolError is why a pool is not full.
	Ready     int    `json:"ready"`
	PoolSize  int    `json:"pool_size"`
	PoolError string `json:"pool_error,omitempty"`
	// Memory is the number of bytes that all sandboxes may have, and MemoryUsed what they have.
	Memory     int64 `json:"memory,omitempty"`
	MemoryUsed int64 `json:"memory_used,omitempty"`
	// Processors is the part of the machine's processors that is in use. It is more than 1 if work
	// waits for them.
	Processors float64 `json:"processors,omitempty"`
	// Disk is the size of the file system of the sessions in bytes.
	Disk     int64 `json:"disk,omitempty"`
	DiskFree int64 `json:"disk_free,omitempty"`
	// Moved is the result of the last drain; absent before it ends.
	Moved *Moved `json:"moved,omitempty"`
	// DrainError is why the last drain has failed.
	DrainError string `json:"drain_error,omitempty"`
	// Editions are the editions that the node keeps, and those that something on it needs.
	Editions []Edition `json:"editions,omitempty"`
}

// Edition is a runtime and an image together. Memory that was saved with an edition can be resumed
// with it only.
type Edition struct {
	// ID is RUNTIME-IMAGE. Both are hashes of the content.
	ID string `json:"id"`
	// GVisor is the version of the runtime; empty if the node does not have the edition.
	GVisor string `json:"gvisor,omitempty"`
	// Current is true for the edition of new sessions. The node removes others at EndsMS, or earlier
	// if nothing needs them.
	Current bool  `json:"current,omitempty"`
	EndsMS  int64 `json:"ends_ms,omitempty"`
	// BeganMS is when the node began to use it for new sessions.
	BeganMS int64 `json:"began_ms,omitempty"`
	// Missing is true if something needs it that the node cannot resume, since it lacks the edition.
	Missing bool `json:"missing,omitempty"`
	// Bytes is the size of its files. Editions share equal files.
	Bytes int64 `json:"bytes,omitempty"`
	EditionUse
}

// EditionUse counts what needs an edition.
type EditionUse struct {
	// Sessions have a sandbox, Hibernated are on the node's disk.
	Sessions   int `json:"sessions"`
	Hibernated int `json:"hibernated"`
	// Copies are those of durable sessions, Snapshots those of users. Both are on the node's disk.
	Copies    int `json:"copies"`
	Snapshots int `json:"snapshots"`
}

// NodeList has the nodes of a server.
type NodeList struct {
	Nodes []NodeInfo `json:"nodes"`
	// Parked counts the sessions in the blob store by their edition, at most 10,000 of them.
	Parked map[string]int `json:"parked,omitempty"`
	// Stored are the editions in the blob store, from where any node that lacks one fetches it.
	Stored []string `json:"stored,omitempty"`
}

// NodeUpdate drains a node, or lets a drained node take sessions again.
type NodeUpdate struct {
	Node     string `json:"node"`
	Draining bool   `json:"draining"`
}

// Moved reports what happened to a node's sessions when it was drained.
type Moved struct {
	// Parked is the number of sessions that other nodes can adopt, and Stayed of those that stay.
	Parked int `json:"parked"`
	Stayed int `json:"stayed"`
	// Snapshots and Templates are the numbers of those that only this node has.
	Snapshots int `json:"snapshots,omitempty"`
	Templates int `json:"templates,omitempty"`
	// Editions is the number of runtimes and images that only this node has, and that sessions in the
	// blob store need.
	Editions int `json:"editions,omitempty"`
}

// SessionOwner describes a session to a gateway that does not know its tenant.
type SessionOwner struct {
	// Tenant and Subject are whose session it is.
	Tenant  string `json:"tenant"`
	Subject string `json:"subject,omitempty"`
	// State is as in Session. Suspended is true for a session that only session.resume resumes.
	State     string            `json:"state"`
	Suspended bool              `json:"suspended,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// ExpiresMS is when the session ends; absent means never.
	ExpiresMS int64 `json:"expires_ms,omitempty"`
	// Ended is why a session has ended: deleted, or a reason as in Session. It is empty for a
	// session that lives. Nodes remember sessions for a day after their end.
	Ended string `json:"ended,omitempty"`
}
