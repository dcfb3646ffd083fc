package cluster

import (
	"context"
	"time"
)

// MaxHolders is the maximum number of holders in one report.
const MaxHolders = 256

// ReclaimTime is how long a request to give something back stays in the ledger.
const ReclaimTime = 5 * time.Second

// UsageLife is the number of leases after which the ledger removes usage that is not repeated.
const UsageLife = 3

// QuotaLedger adds up the usage of all nodes, for quotas of the whole cluster.
type QuotaLedger interface {
	// Report replaces the node's usage of some holders and returns the usage of all other nodes, in
	// one step: when two nodes take the remainder of a quota, the second one sees the first. The
	// usage of a node ends with its lease.
	Report(ctx context.Context, r UsageReport) (UsageReply, error)
}

// UsageReport is the usage of some holders on a node.
type UsageReport struct {
	Node        NodeID
	Incarnation Token
	Lease       time.Duration
	// Number is greater than those of earlier reports of the incarnation. The ledger refuses a
	// report that was delayed and that it gets after a later one.
	Number uint64
	// Complete reports that the ledger has all usage of this incarnation with this report. Until
	// then, what the node reported in earlier incarnations counts.
	Complete bool
	// Collect takes the requests of other nodes to give something back. Each is returned once.
	Collect bool
	All     []NodeUsage
}

// UsageReply is the reply to a UsageReport.
type UsageReply struct {
	// Incarnation is that of the report.
	Incarnation Token
	// Totals has the usage of all other nodes, for each holder of the report.
	Totals []Amounts
	// Reclaim has the holders for which other nodes ask the node to give something back.
	Reclaim []string
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
	// Reclaim asks the other nodes that use something to give it back.
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
