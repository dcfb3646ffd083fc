package cluster

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Registry is the part of a directory that a LeaseHolder uses. Each method is
// one atomic step with a time limit.
type Registry interface {
	Membership
	Ownership
	QuotaLedger
}

// Membership is the part of a directory that has the nodes.
type Membership interface {
	// Heartbeat renews a node's lease or starts one.
	Heartbeat(ctx context.Context, h Heartbeat) (HeartbeatReply, error)
	// EndLease ends the lease of a node that has nothing that others could miss.
	EndLease(ctx context.Context, node NodeID, incarnation Token) error
}

// Ownership is the part of a directory that has the sessions.
type Ownership interface {
	// Claim makes a node the owner of a session.
	Claim(ctx context.Context, c Claim) (Token, error)
	// Release ends the ownership of a session whose state every node can now read.
	Release(ctx context.Context, id SessionID, token Token, as ReleaseInfo) error
	// Forget removes a session that has ended.
	Forget(ctx context.Context, id SessionID, token Token) error
	// End records why a session has ended, frees its name, and removes its record after keep. Until
	// then its node still owns it.
	End(ctx context.Context, id SessionID, token Token, reason string, keep time.Duration) error
	// Verify returns those of a node's sessions whose records are missing or do not agree.
	Verify(ctx context.Context, node NodeID, incarnation Token, all []Owned) ([]SessionID, error)
}

// Owned is a session with the token of its owner.
type Owned struct {
	Session SessionID
	Token   Token
}

// Lookup is the part of a directory that a Resolver uses.
type Lookup interface {
	// Find returns the owner of a session, or NotFound. It is Unavailable for a session without a
	// record while the directory may not have the claims of all nodes.
	Find(ctx context.Context, id SessionID) (Owner, error)
	// Nodes lists the nodes whose leases are valid.
	Nodes(ctx context.Context) ([]Node, error)
	// Absent lists the nodes whose leases have ended in the last hour, and that have not left. They
	// may have sessions that no other node has.
	Absent(ctx context.Context) ([]NodeID, error)
	// Watch emits changes of ownership until ctx ends.
	Watch(ctx context.Context) <-chan Event
}

// NodeInfo is the description of a node that each of its heartbeats carries.
type NodeInfo struct {
	// Address is the host:port under which gateways reach the node.
	Address string `json:"address,omitempty"`
	// Sessions is the number of sessions that have a sandbox; Most is its limit.
	Sessions int `json:"sessions"`
	Most     int `json:"most"`
	// Hibernated is the number of sessions on the node's disk.
	Hibernated int `json:"hibernated,omitempty"`
	// Ready is the number of warm sandboxes by language.
	Ready map[string]int `json:"ready,omitempty"`
	// Draining nodes receive no sessions.
	Draining bool `json:"draining,omitempty"`
	// Leaving nodes are about to end, and what stays on them is away until they are back. Lists do not
	// wait for them, and name them.
	Leaving bool `json:"leaving,omitempty"`
	// Zone is the label of the place where the node is, such as a data centre; may be empty.
	Zone string `json:"zone,omitempty"`
	// Image is the edition of the node's new sessions: its image and runtime. Another node can resume
	// them if it has the same edition, as Image or among Earlier.
	Image string `json:"image,omitempty"`
	// Earlier are the earlier editions whose sessions the node can resume.
	Earlier []string `json:"earlier,omitempty"`
	// Ending are those of them whose time is over there.
	Ending []string `json:"ending,omitempty"`
	// Memory is the number of bytes that all sandboxes may have; 0 for unknown. MemoryUsed is the
	// number that they have.
	Memory     int64 `json:"memory,omitempty"`
	MemoryUsed int64 `json:"memory_used,omitempty"`
	// Processors is the part of the machine's processors that is in use. It is more than 1 if work
	// waits for them.
	Processors float64 `json:"processors,omitempty"`
	// Disk is the size of the file system of the sessions in bytes; 0 for unknown.
	Disk     int64 `json:"disk,omitempty"`
	DiskFree int64 `json:"disk_free,omitempty"`
}

// ReleaseInfo describes a session whose node releases it.
type ReleaseInfo struct {
	// Busy reports that the session was running code.
	Busy bool
	// Memory is the number of bytes that its state takes, and Image the NodeInfo.Image of the node.
	// Without an image, those of an earlier release stay.
	Memory int64
	Image  string
}

// Heartbeat renews a node's lease.
type Heartbeat struct {
	Node NodeID
	// Instance distinguishes two processes that have the same node name. A process
	// that restarts on the same data has the same instance.
	Instance string
	// Process is a random id of the process. Replaces is that of an earlier process on the same data
	// that has certainly ended; empty for unknown.
	Process, Replaces string
	// Beat is a random id of this heartbeat. Beats are those of earlier heartbeats of the process: the
	// last one that was answered, and later ones. A copy of a running process cannot know them.
	Beat  string
	Beats []string
	// Incarnation is the value that the first heartbeat returned; 0 in the first.
	Incarnation Token
	// Floor is the largest token that the node knows.
	Floor Token
	Lease time.Duration
	Info  NodeInfo
}

// HeartbeatReply is the answer to a heartbeat.
type HeartbeatReply struct {
	// Incarnation changes when the node's lease had expired. The node must then
	// claim each of its sessions again.
	Incarnation Token
	// Epoch changes when the directory may have lost data.
	Epoch Token
	// Now is the directory's clock in microseconds; 0 for a clock that nobody can
	// set.
	Now Token
}

// ClaimMode is the reason for a claim.
type ClaimMode string

// The modes of a claim.
const (
	// ClaimNew is for a session that was just created. It succeeds for one that an earlier process of
	// the same node has created and lost.
	ClaimNew ClaimMode = "new"
	// ClaimRenew is for a session that the node already has. The directory refuses
	// it if another node has claimed the session since. Last may be an older token
	// of the same node, as in a copy from which the session was restored.
	ClaimRenew ClaimMode = "keep"
	// ClaimTakeOver is for a session whose state every node can read. The directory
	// refuses it while another node's lease is valid, and for one lease after the
	// directory may have lost data.
	ClaimTakeOver ClaimMode = "take"
)

// Claim requests the ownership of a session.
type Claim struct {
	Session     SessionID
	Node        NodeID
	Incarnation Token
	Mode        ClaimMode
	// From is the node that wrote the copy from which ClaimTakeOver continues; empty for a session
	// that was parked. If the directory has lost the record, that node still owns the session while
	// it has a lease: it will claim the session again.
	From NodeID
	// Last is the node's token of the session; 0 for none.
	Last Token
	// Lease is the cluster's lease time.
	Lease time.Duration
	// Grace is the time that the owner must be missing before ClaimTakeOver
	// succeeds. It counts from the end of the owner's lease, or from a restart of
	// the owner after which it has not claimed the session. A released session
	// needs no grace.
	Grace time.Duration
	// Now is the node's estimate of the directory's clock; 0 for unknown. The
	// directory refuses a ClaimTakeOver when its clock was set forward since.
	Now Token
	// Until is the time after which the directory may forget the session; NoEnd means never.
	Until time.Time
}

// Owner is the owner of a session.
type Owner struct {
	Session SessionID
	// Node is empty for a released session: its state is in the blob store.
	Node  NodeID
	Token Token
	// Live reports that the node's lease is valid. Address is the node's address.
	Live    bool
	Address string
	// Ended is the reason why the session has ended; empty for a session that lives.
	Ended string
	// Memory and Image are those of the ReleaseInfo of a released session.
	Memory int64
	Image  string
}

// Node is a node of the cluster as a gateway sees it.
type Node struct {
	ID NodeID
	NodeInfo
	// Age is the time since the node's last heartbeat.
	Age time.Duration
}

// Event reports a change of ownership. An event without a session reports that
// events may have been missed.
type Event struct {
	Session SessionID `json:"session,omitempty"`
	// Node is the new owner; empty for none.
	Node NodeID `json:"node,omitempty"`
	// Busy reports that a session without an owner was running code.
	Busy bool `json:"works,omitempty"`
}

// Check returns an error for a heartbeat that no directory accepts.
func (h Heartbeat) Check() error {
	const op = "cluster.heartbeat"
	if err := CheckNode(h.Node); err != nil {
		return err
	}
	if h.Lease < MinLease {
		return fault.Invalid(op, "lease", "a lease takes at least %s", MinLease)
	}
	for _, id := range append([]string{h.Process, h.Replaces, h.Beat}, h.Beats...) {
		if id != "" && !plain(id, "-") {
			return fault.Invalid(op, "process", "an id of a process or a heartbeat has between 1 and "+
				"%d letters and digits", MaxName)
		}
	}
	if h.Instance == "" || len(h.Instance) > MaxName {
		return fault.Invalid(op, "instance", "an instance has between 1 and %d bytes", MaxName)
	}
	return nil
}

// Check returns an error for a claim that no directory accepts.
func (c Claim) Check() error {
	if err := CheckNode(c.Node); err != nil {
		return err
	}
	if c.Mode != ClaimNew && c.Mode != ClaimRenew && c.Mode != ClaimTakeOver {
		return fault.Invalid("cluster.claim", "mode", "there is no mode %q", c.Mode)
	}
	return CheckSession(c.Session)
}

// NoEnd is a time after the end of every session and of every record. It fits into all forms in
// which times are stored: the numbers of Redis are exact up to the year 2255.
func NoEnd() time.Time { return time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC) }
