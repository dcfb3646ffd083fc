// Package local implements the stores of a cluster for one process: the session
// directory in a file, all others in memory.
package local

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Directory is the session directory in a file, for the one process that has it open.
// Sessions and tokens survive the process; leases do not, since the nodes that hold
// them end with it.
type Directory struct {
	db     *bolt.DB
	events cluster.Broadcaster

	mu      sync.Mutex // guards all below
	nodes   map[cluster.NodeID]*node
	holders map[string]*holder
	swept   time.Time
}

type node struct {
	instance      string
	incarnation   cluster.Token
	info          cluster.NodeInfo
	lastHeartbeat time.Time
	until         time.Time
	left          bool      // it has ended its lease
	started       time.Time // this incarnation
	// reports is the number of the last report of usage. complete is set when the node has reported
	// all usage of its incarnation.
	reports  uint64
	complete bool
	wanted   map[string]time.Time // holders that other nodes want to use less, and until when
}

// entry is the value of a session in the file.
type entry struct {
	Node        cluster.NodeID `json:"node,omitempty"`
	Incarnation cluster.Token  `json:"incarnation,omitempty"`
	Token       cluster.Token  `json:"token"`
	Until       time.Time      `json:"until"`
	// Tenant and Name are set for a session with a name.
	Tenant string `json:"tenant,omitempty"`
	Name   string `json:"name,omitempty"`
	// Ended is the reason why the session has ended.
	Ended string `json:"ended,omitempty"`
	// Memory and Image are set for a released session.
	Memory int64  `json:"memory,omitempty"`
	Image  string `json:"image,omitempty"`
}

// openWait is how long OpenDirectory waits for another process to close the file.
const openWait = 5 * time.Second

// sweepEvery is the time between two removals of expired records.
const sweepEvery = time.Minute

// OpenDirectory opens or creates the directory in the file at path.
func OpenDirectory(path string) (*Directory, error) {
	const op = "local.open"
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: openWait, NoFreelistSync: true})
	if err != nil {
		return nil, &fault.Error{
			Kind: fault.Host, Op: op, Message: "cannot open the directory " + path, Err: err,
		}
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta(), bucketSessions(), bucketNames()} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = db.Close()
		return nil, fault.Wrap(fault.Host, op, err)
	}
	return &Directory{db: db, nodes: map[cluster.NodeID]*node{}, holders: map[string]*holder{}}, nil
}

func bucketMeta() []byte     { return []byte("meta") }
func bucketSessions() []byte { return []byte("sessions") }

// Close closes the file. All watches end.
func (d *Directory) Close() error {
	d.events.Close()
	return fault.Wrap(fault.Host, "local.close", d.db.Close())
}

// Heartbeat renews a node's lease or starts one.
func (d *Directory) Heartbeat(
	_ context.Context, b cluster.Heartbeat,
) (cluster.HeartbeatReply, error) {
	const op = "local.heartbeat"
	if err := b.Check(); err != nil {
		return cluster.HeartbeatReply{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	m := d.nodes[b.Node]
	live := m != nil && now.Before(m.until)
	if live && m.instance != b.Instance {
		return cluster.HeartbeatReply{}, cluster.AnotherProcess(op, b.Node)
	}
	incarnation := b.Incarnation
	if incarnation != 0 {
		if !live || m.incarnation != incarnation {
			return cluster.HeartbeatReply{}, cluster.LeaseExpired(op)
		}
	} else {
		err := d.db.Update(func(tx *bolt.Tx) (err error) {
			incarnation, err = next(tx, b.Floor)
			return err
		})
		if err != nil {
			return cluster.HeartbeatReply{}, fileError(op, err)
		}
	}
	if b.Incarnation == 0 {
		m = &node{instance: b.Instance, incarnation: incarnation, started: now}
		d.nodes[b.Node] = m
	}
	m.info, m.lastHeartbeat, m.until, m.left = b.Info, now, now.Add(b.Lease), false
	if now.Sub(d.swept) > sweepEvery {
		d.swept = now
		if err := d.sweep(now); err != nil {
			return cluster.HeartbeatReply{}, fileError(op, err)
		}
	}
	return cluster.HeartbeatReply{Incarnation: incarnation, Epoch: 1}, nil
}

// sweep removes expired records. Preconditions: mu is held.
func (d *Directory) sweep(now time.Time) error {
	for id, m := range d.nodes {
		if now.After(m.until.Add(time.Hour)) {
			delete(d.nodes, id)
		}
	}
	return d.db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketSessions()).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			var x entry
			if json.Unmarshal(v, &x) == nil && now.Before(x.Until) {
				continue
			}
			if err := freeName(tx, cluster.SessionID(k), &x); err != nil {
				return err
			}
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
}

// lastToken returns the last token; 0 for none.
func lastToken(tx *bolt.Tx) cluster.Token {
	if b := tx.Bucket(bucketMeta()).Get([]byte("token")); len(b) == 8 {
		return cluster.Token(binary.BigEndian.Uint64(b))
	}
	return 0
}

// next returns a token that is larger than all earlier ones.
func next(tx *bolt.Tx, floor cluster.Token) (cluster.Token, error) {
	meta := tx.Bucket(bucketMeta())
	t := max(lastToken(tx), floor, cluster.Token(max(time.Now().UnixMicro(), 0))) + 1
	return t, meta.Put([]byte("token"), binary.BigEndian.AppendUint64(nil, uint64(t)))
}

// reach raises the last token to one that a node has.
func reach(tx *bolt.Tx, token cluster.Token) error {
	if token <= lastToken(tx) {
		return nil
	}
	return tx.Bucket(bucketMeta()).Put([]byte("token"),
		binary.BigEndian.AppendUint64(nil, uint64(token)))
}

// Claim makes a node the owner of a session.
func (d *Directory) Claim(_ context.Context, c cluster.Claim) (cluster.Token, error) {
	const op = "local.claim"
	if err := c.Check(); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.live(c.Node, c.Incarnation) {
		return 0, cluster.LeaseExpired(op)
	}
	var token cluster.Token
	err := d.db.Update(func(tx *bolt.Tx) error {
		x, found := find(tx, c.Session)
		mine := found && x.Node == c.Node && x.Incarnation == c.Incarnation
		switch c.Mode {
		case cluster.ClaimNew:
			if mine { // the answer to the first claim was lost
				token = x.Token
				return nil
			}
			// An earlier process of the node may have lost the session.
			if found && x.Node != c.Node {
				return cluster.OwnedByAnother(op, x.Node)
			}
		case cluster.ClaimRenew:
			// A record with a smaller token is older than the node's own claim.
			if found && x.Node != c.Node && x.Token > c.Last {
				return cluster.OwnedByAnother(op, "")
			}
		case cluster.ClaimTakeOver:
			if found && !mine && x.Ended != "" {
				return cluster.NoSession(op)
			}
			if !found && c.From != c.Node && d.hasLease(c.From) {
				return cluster.OwnedByAnother(op, c.From)
			}
			if found && !mine && d.live(x.Node, x.Incarnation) {
				return cluster.OwnedByAnother(op, x.Node)
			}
			if found && !mine && x.Node != "" {
				if left := c.Grace - time.Since(d.missingSince(x.Node)); left > 0 {
					return cluster.OwnerMissing(op, x.Node, left)
				}
			}
		default:
			return fault.Invalid(op, "mode", "there is no mode %q", c.Mode)
		}
		var err error
		if token, err = next(tx, max(c.Last, x.Token)); err != nil {
			return err
		}
		x.Node, x.Incarnation, x.Token, x.Until = c.Node, c.Incarnation, token, c.Until
		return put(tx, c.Session, x)
	})
	if err != nil {
		return 0, fileError(op, err)
	}
	d.events.Publish(cluster.Event{Session: c.Session, Node: c.Node})
	return token, nil
}

// missingSince returns the time from which a takeover counts the grace period: the end
// of the node's lease, or its restart. Preconditions: mu is held.
func (d *Directory) missingSince(id cluster.NodeID) time.Time {
	m := d.nodes[id]
	switch {
	case m == nil:
		return time.Time{}
	case time.Now().Before(m.until):
		return m.started
	}
	return m.until
}

// live reports whether a node's lease is valid. Preconditions: mu is held.
func (d *Directory) live(id cluster.NodeID, incarnation cluster.Token) bool {
	m := d.nodes[id]
	return m != nil && m.incarnation == incarnation && time.Now().Before(m.until)
}

// hasLease reports whether a node has a lease. Preconditions: mu is held.
func (d *Directory) hasLease(id cluster.NodeID) bool {
	m := d.nodes[id]
	return m != nil && time.Now().Before(m.until)
}

func find(tx *bolt.Tx, id cluster.SessionID) (x entry, found bool) {
	b := tx.Bucket(bucketSessions()).Get([]byte(id))
	if b == nil || json.Unmarshal(b, &x) != nil || time.Now().After(x.Until) {
		return entry{}, false
	}
	return x, true
}

func put(tx *bolt.Tx, id cluster.SessionID, x entry) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketSessions()).Put([]byte(id), b)
}

// isReleased reports whether a session has no owner. Preconditions: mu is held.
func (d *Directory) isReleased(id cluster.SessionID) (is bool) {
	_ = d.db.View(func(tx *bolt.Tx) error {
		x, found := find(tx, id)
		is = found && x.Node == ""
		return nil
	})
	return is
}

// Release ends the ownership of a session whose state every node can now read.
func (d *Directory) Release(
	_ context.Context, id cluster.SessionID, token cluster.Token, as cluster.ReleaseInfo,
) error {
	err := d.change("local.release", id, token, func(tx *bolt.Tx, x entry) error {
		x.Node, x.Incarnation, x.Token = "", 0, token
		if as.Image != "" {
			x.Memory, x.Image = as.Memory, as.Image
		}
		if err := reach(tx, token); err != nil {
			return err
		}
		return put(tx, id, x)
	})
	if err == nil {
		d.events.Publish(cluster.Event{Session: id, Busy: as.Busy})
	}
	return err
}

// Forget removes a session that has ended.
func (d *Directory) Forget(_ context.Context, id cluster.SessionID, token cluster.Token) error {
	err := d.change("local.forget", id, token, func(tx *bolt.Tx, x entry) error {
		if err := freeName(tx, id, &x); err != nil {
			return err
		}
		return tx.Bucket(bucketSessions()).Delete([]byte(id))
	})
	if err == nil {
		d.events.Publish(cluster.Event{Session: id})
	}
	return err
}

// End records why a session has ended, and removes its record after keep.
func (d *Directory) End(
	_ context.Context, id cluster.SessionID, token cluster.Token, reason string,
	keep time.Duration,
) error {
	return d.change("local.end", id, token, func(tx *bolt.Tx, x entry) error {
		if err := freeName(tx, id, &x); err != nil {
			return err
		}
		x.Ended, x.Until = reason, time.Now().Add(keep)
		return put(tx, id, x)
	})
}

// EndLease ends the lease of a node that has nothing that others could miss.
func (d *Directory) EndLease(
	_ context.Context, node cluster.NodeID, incarnation cluster.Token,
) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live(node, incarnation) {
		d.nodes[node].until, d.nodes[node].left = time.Now(), true
		d.events.Publish(cluster.Event{})
	}
	return nil
}

// Verify returns those of a node's sessions whose records are missing or do not agree.
func (d *Directory) Verify(
	_ context.Context, node cluster.NodeID, incarnation cluster.Token, all []cluster.Owned,
) (wrong []cluster.SessionID, err error) {
	const op = "local.verify"
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.live(node, incarnation) {
		return nil, cluster.LeaseExpired(op)
	}
	err = d.db.View(func(tx *bolt.Tx) error {
		for _, s := range all {
			x, found := find(tx, s.Session)
			if !found || x.Node != node || x.Incarnation != incarnation || x.Token != s.Token {
				wrong = append(wrong, s.Session)
			}
		}
		return nil
	})
	return wrong, fileError(op, err)
}

func (d *Directory) change(
	op string, id cluster.SessionID, token cluster.Token, f func(*bolt.Tx, entry) error,
) error {
	if err := cluster.CheckSession(id); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return fileError(op, d.db.Update(func(tx *bolt.Tx) error {
		x, found := find(tx, id)
		if !found {
			return nil
		}
		// A record with a smaller token is older than the claim of the caller.
		if x.Token > token {
			return cluster.OwnedByAnother(op, x.Node)
		}
		return f(tx, x)
	}))
}

// Find returns the owner of a session, or NotFound.
func (d *Directory) Find(_ context.Context, id cluster.SessionID) (cluster.Owner, error) {
	const op = "local.find"
	if err := cluster.CheckSession(id); err != nil {
		return cluster.Owner{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := cluster.Owner{Session: id}
	err := d.db.View(func(tx *bolt.Tx) error {
		x, found := find(tx, id)
		if !found {
			return cluster.NoSession(op)
		}
		o.Node, o.Token, o.Live = x.Node, x.Token, d.live(x.Node, x.Incarnation)
		o.Ended = x.Ended
		if x.Node == "" {
			o.Memory, o.Image = x.Memory, x.Image
		}
		if o.Live {
			o.Address = d.nodes[x.Node].info.Address
		}
		return nil
	})
	return o, fileError(op, err)
}

// Absent lists the nodes whose leases have ended and that have not left.
func (d *Directory) Absent(context.Context) (all []cluster.NodeID, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for id, m := range d.nodes {
		if !now.Before(m.until) && !m.left && len(all) < cluster.MaxNodes {
			all = append(all, id)
		}
	}
	return all, nil
}

// Nodes lists the nodes whose leases are valid.
func (d *Directory) Nodes(context.Context) ([]cluster.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	var all []cluster.Node
	for id, m := range d.nodes {
		if now.Before(m.until) && len(all) < cluster.MaxNodes {
			all = append(all, cluster.Node{ID: id, NodeInfo: m.info, Age: now.Sub(m.lastHeartbeat)})
		}
	}
	return all, nil
}

// Watch emits changes of ownership until ctx ends. The first event is empty.
func (d *Directory) Watch(ctx context.Context) <-chan cluster.Event {
	return d.events.Subscribe(ctx)
}

// fileError gives an error of the file a kind.
func fileError(op string, err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, Message: "the directory cannot be written", RetryAfter: 1,
		Err: err,
	}
}
