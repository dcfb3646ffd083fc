// Package cluster is the directory: it says which node owns a session. Ownership
// is a lease with a fencing token, and a node's leases live as long as its
// heartbeats come. Embedded keeps the directory in a file of one process, Redis
// on a server for many; both pass the same tests.
//
// Keeper is a node's end: it holds the node's leases and fences those that it
// could not renew. Finder is a gateway's: it looks up owners, remembers them,
// and chooses nodes for new sessions.
package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// NodeID names a node; see CheckNode.
type NodeID string

// SessionID names a session; see CheckSession.
type SessionID string

// Token is a fencing token. Each change of owner has a larger one than all
// before it, for all sessions together, also after the directory lost its data:
// a token is never below the directory's clock in microseconds, nor below any
// token that a node has seen.
type Token uint64

// Limits and times.
const (
	// MaxName is how many bytes an id may have.
	MaxName = 64
	// MaxInfo is how many bytes a node may say of itself, as JSON.
	MaxInfo = 4 << 10
	// MaxNodes is how many nodes are listed.
	MaxNodes = 256
	// MinLease is the shortest lease.
	MinLease = 100 * time.Millisecond
	// DefaultLease is how long a node owns its sessions after its last
	// heartbeat, unless the settings say otherwise.
	DefaultLease = 45 * time.Second
	// beats is how many heartbeats there are in a lease.
	beats = 15
)

// Info is what a node says of itself with each heartbeat.
type Info struct {
	// Address is where gateways reach it, as host:port.
	Address string `json:"address,omitempty"`
	// Sessions of at most Most have a sandbox; Hibernated are on its disk.
	Sessions   int `json:"sessions"`
	Most       int `json:"most"`
	Hibernated int `json:"hibernated,omitempty"`
	// Ready is how many warm sandboxes wait, by language.
	Ready map[string]int `json:"ready,omitempty"`
	// Draining nodes get no sessions.
	Draining bool `json:"draining,omitempty"`
}

// Beat is a heartbeat.
type Beat struct {
	Node NodeID
	// Instance tells two processes that were given one name apart. A process
	// that is started again on the same data has the same.
	Instance string
	// Incarnation is what the first heartbeat returned; 0 for the first.
	Incarnation Token
	// Floor is the largest token that the node knows of.
	Floor Token
	Lease time.Duration
	Info  Info
}

// Beaten answers a heartbeat.
type Beaten struct {
	// Incarnation is the node's. It changes when its leases had run out, and
	// then each session has to be claimed again.
	Incarnation Token
	// Epoch changes when the directory may have lost what was written.
	Epoch Token
	// Now is the directory's clock in microseconds; 0 where it cannot be set.
	Now Token
}

// Mode is why a session is claimed.
type Mode string

// The modes of a claim.
const (
	// New is for a session that has just been made.
	New Mode = "new"
	// Keep is for one that the node has had all along: it is refused when
	// another has claimed it since. The token may be an older one of the node's
	// own, as that of a copy from which a session came back.
	Keep Mode = "keep"
	// Take is for one whose state lies where others can read it: it is refused
	// while another's lease lives, and for the time of a lease after the
	// directory may have lost data.
	Take Mode = "take"
)

// Claim asks for a session.
type Claim struct {
	Session     SessionID
	Node        NodeID
	Incarnation Token
	Mode        Mode
	// Last is the token that the node has for it; 0 for none.
	Last Token
	// Lease is the cluster's.
	Lease time.Duration
	// Grace is how long the owner has to be missed before Take takes the
	// session from it: since its lease ran out, or since it was started again
	// and has not claimed the session. Park needs none.
	Grace time.Duration
	// Now is what the node takes the directory's clock to show; 0 for not known.
	// A Take by a clock that was set ahead since is refused.
	Now Token
	// Until is when the directory may forget the session.
	Until time.Time
}

// Owner is who has a session.
type Owner struct {
	Session SessionID
	// Node is empty when nobody has it: its state is in the blob store.
	Node  NodeID
	Token Token
	// Live says that the node's lease is good. Address is where it is reached.
	Live    bool
	Address string
}

// Node is a node of the cluster as a gateway sees it.
type Node struct {
	ID NodeID
	Info
	// Age is how long ago its last heartbeat came.
	Age time.Duration
}

// Event tells of a change of owner. One with an empty session says that events
// may have been missed.
type Event struct {
	Session SessionID `json:"session,omitempty"`
	// Node is the new owner, empty for none.
	Node NodeID `json:"node,omitempty"`
	// Works says that a session which nobody owns was at work.
	Works bool `json:"works,omitempty"`
}

// CheckNode checks a node's name: letters, digits, dots and dashes.
func CheckNode(id NodeID) error {
	if !plain(string(id), "-.") {
		return fault.Invalid("cluster.node", "node", "a node's name has between 1 and %d letters, digits, dots and dashes", MaxName)
	}
	return nil
}

// CheckSession checks a session's id: letters, digits and underscores.
func CheckSession(id SessionID) error {
	if !plain(string(id), "_-") {
		return fault.Invalid("cluster.session", "session", "a session's id has between 1 and %d letters, digits, underscores and dashes", MaxName)
	}
	return nil
}

// plain keeps ids harmless wherever they stand: in keys, file names and URLs.
func plain(s, extra string) bool {
	if s == "" || len(s) > MaxName || s[0] == '.' {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(extra, r) {
			return false
		}
	}
	return true
}

func (b Beat) check() error {
	if err := CheckNode(b.Node); err != nil {
		return err
	}
	if b.Lease < MinLease {
		return fault.Invalid("cluster.beat", "lease", "a lease takes at least %s", MinLease)
	}
	if b.Instance == "" || len(b.Instance) > MaxName {
		return fault.Invalid("cluster.beat", "instance", "an instance has between 1 and %d bytes", MaxName)
	}
	return nil
}

func (c Claim) check() error {
	if err := CheckNode(c.Node); err != nil {
		return err
	}
	return CheckSession(c.Session)
}

// expired is the error of a node whose heartbeats did not come in time: it has
// to begin anew.
func expired(op string) error {
	return fault.New(fault.Restarting, op, "the node's lease has run out")
}

// missed is the error of a claim that is too early by left.
func missed(op string, by NodeID, left time.Duration) error {
	seconds := max(1, int((left+time.Second-1)/time.Second))
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: seconds,
		Message: fmt.Sprintf("the session's node %s is gone; another takes the session over in %d s unless it comes back", by, seconds),
	}
}

// taken is the error of a claim that another's stands against.
func taken(op string, by NodeID) error {
	if by == "" {
		return fault.New(fault.Conflict, op, "the session has had another owner since")
	}
	return fault.New(fault.Conflict, op, "the session is owned by node %s", by)
}
