package cluster

import (
	"context"
	"time"
)

// MaxHolders is the maximum number of holders in one report.
const MaxHolders = 256

// ReclaimTime is how long a request to give something back stays in the ledger.
const ReclaimTime = 5 * time.Second

// QuotaLedger adds up the usage of all nodes, for quotas of the whole cluster.
type QuotaLedger interface {
	// Report replaces the node's usage and returns the usage of all other nodes,
	// in one step: when two nodes take the remainder of a quota, the second one
	// sees the first. The usage of a node ends with its lease.
	Report(ctx context.Context, node NodeID, incarnation Token, lease time.Duration,
		all []NodeUsage,
	) ([]Totals, error)
}

// Amounts is a vector of quantities. The ledger adds them element by element and
// does not know their meaning.
type Amounts []float64

// Add adds b to the amounts.
func (a *Amounts) Add(b Amounts) {
	for len(*a) < len(b) {
		*a = append(*a, 0)
	}
	for i, x := range b {
		(*a)[i] += x
	}
}

// NodeUsage is the usage of one holder on one node.
type NodeUsage struct {
	// Holder is any text; the directory stores its hash.
	Holder string
	// Used is the whole usage on the node, including the amounts that it is about to take; nil
	// means none.
	Used Amounts
	// Reclaim asks the other nodes to give something back.
	Reclaim bool
	// Released is a session that the node has released; nil means none.
	Released *ReleasedSession
}

// ReleasedSession is the usage of a session that no node owns. It counts until a
// node claims the session.
type ReleasedSession struct {
	Session SessionID
	// Until is when the usage ends. A time in the past ends it now.
	Until time.Time
	Used  Amounts
	// Stored is set for a snapshot in the blob store, in place of a session. Its usage counts while
	// the node that reported it last has no lease.
	Stored bool
}

// Totals is the usage of one holder on all other nodes.
type Totals struct {
	Used Amounts
	// Reclaim reports that another node asks for something back.
	Reclaim bool
}
