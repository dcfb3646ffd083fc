package cluster

import (
	"fmt"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// LeaseExpired is the error for a node whose lease has expired: it has to send a
// heartbeat without an incarnation.
func LeaseExpired(op string) error {
	return fault.New(fault.Restarting, op, "the node's lease has run out")
}

// OwnerMissing is the error for a takeover that has to wait until the owner was
// missing for its whole grace period; left is the remaining time.
func OwnerMissing(op string, owner NodeID, left time.Duration) error {
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: seconds(left),
		Message: fmt.Sprintf(
			"the session's node %s is gone; another takes the session over in %d s "+
				"unless it comes back", owner, seconds(left)),
	}
}

// AnotherProcess is the error for the heartbeat of a process while another one is the node.
func AnotherProcess(op string, node NodeID) error {
	return fault.New(fault.Conflict, op, "another process is node %s", node)
}

// OwnedByAnother is the error for a step that another owner of the session
// prevents. An empty owner is unknown.
func OwnedByAnother(op string, owner NodeID) error {
	if owner == "" {
		return fault.New(fault.Conflict, op, "the session has had another owner since")
	}
	return fault.New(fault.Conflict, op, "the session is owned by node %s", owner)
}

// Young is the error for a session without a record while the directory may not have the claims of all
// nodes; left is the remaining time.
func Young(op string, left time.Duration) error {
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: min(2, seconds(left)),
		Message: "the directory was started again, and not all nodes have reported their sessions yet",
	}
}

// seconds returns a time to wait in whole seconds, at least one.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// NoSession is the error for a session that the directory does not have.
func NoSession(op string) error {
	return &fault.Error{
		Kind: fault.NotFound, Op: op, Field: "session", Message: "there is no such session",
	}
}

// OldReport is the error of a report of usage that arrived after a later one.
func OldReport(op string) error {
	return fault.New(fault.Conflict, op, "the directory has a later report of the node")
}

// NoneReached is the error of a request that needs any node, while there is none.
func NoneReached(op string) error {
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: 2,
		Message: "no node of the cluster can be reached",
	}
}
