package cluster

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/sandgate/sandgate/fault"
)

// Embedded is a directory in a file, for the one process that has it open.
// Sessions and tokens survive the process; heartbeats do not, since whoever
// could have renewed its lease has ended with it.
type Embedded struct {
	db     *bolt.DB
	events fan

	mu    sync.Mutex // guards all below
	nodes map[NodeID]*member
	held  map[string]*account
	swept time.Time
}

type member struct {
	instance    string
	incarnation Token
	info        Info
	seen        time.Time
	until       time.Time
	begun       time.Time // this incarnation
}

// entry is a session's value in the file.
type entry struct {
	Node        NodeID    `json:"node,omitempty"`
	Incarnation Token     `json:"incarnation,omitempty"`
	Token       Token     `json:"token"`
	Until       time.Time `json:"until"`
}

// openWait is how long another process may keep the file.
const openWait = 5 * time.Second

// sweepEvery is the time between two searches for what may be forgotten.
const sweepEvery = time.Minute

// OpenEmbedded opens the directory in the file at path, or makes it.
func OpenEmbedded(path string) (*Embedded, error) {
	const op = "cluster.open"
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: openWait, NoFreelistSync: true})
	if err != nil {
		return nil, &fault.Error{Kind: fault.Host, Op: op, Message: "cannot open the directory " + path, Err: err}
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta(), bucketSessions()} {
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
	return &Embedded{db: db, nodes: map[NodeID]*member{}, held: map[string]*account{}}, nil
}

func bucketMeta() []byte     { return []byte("meta") }
func bucketSessions() []byte { return []byte("sessions") }

// Close closes the file. Watches end.
func (e *Embedded) Close() error {
	e.events.close()
	return fault.Wrap(fault.Host, "cluster.close", e.db.Close())
}

// Beat renews a node's lease, or begins it.
func (e *Embedded) Beat(_ context.Context, b Beat) (Beaten, error) {
	const op = "cluster.beat"
	if err := b.check(); err != nil {
		return Beaten{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	m := e.nodes[b.Node]
	live := m != nil && now.Before(m.until)
	if live && m.instance != b.Instance {
		return Beaten{}, fault.New(fault.Conflict, op, "another process is node %s", b.Node)
	}
	incarnation := b.Incarnation
	if incarnation != 0 {
		if !live || m.incarnation != incarnation {
			return Beaten{}, expired(op)
		}
	} else {
		err := e.db.Update(func(tx *bolt.Tx) (err error) {
			incarnation, err = next(tx, b.Floor)
			return err
		})
		if err != nil {
			return Beaten{}, fileError(op, err)
		}
	}
	begun := now
	if b.Incarnation != 0 {
		begun = m.begun
	}
	e.nodes[b.Node] = &member{b.Instance, incarnation, b.Info, now, now.Add(b.Lease), begun}
	if now.Sub(e.swept) > sweepEvery {
		e.swept = now
		if err := e.sweep(now); err != nil {
			return Beaten{}, fileError(op, err)
		}
	}
	return Beaten{Incarnation: incarnation, Epoch: 1}, nil
}

// sweep forgets what may be forgotten.
// Preconditions: mu is held.
func (e *Embedded) sweep(now time.Time) error {
	for id, m := range e.nodes {
		if now.After(m.until.Add(time.Hour)) {
			delete(e.nodes, id)
		}
	}
	return e.db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketSessions()).Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			var x entry
			if json.Unmarshal(v, &x) == nil && now.Before(x.Until) {
				continue
			}
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
}

// next returns a token that is larger than all before it.
func next(tx *bolt.Tx, floor Token) (Token, error) {
	meta := tx.Bucket(bucketMeta())
	var last Token
	if b := meta.Get([]byte("token")); len(b) == 8 {
		last = Token(binary.BigEndian.Uint64(b))
	}
	t := max(last, floor, Token(max(time.Now().UnixMicro(), 0))) + 1
	return t, meta.Put([]byte("token"), binary.BigEndian.AppendUint64(nil, uint64(t)))
}

// Claim makes a node a session's owner.
func (e *Embedded) Claim(_ context.Context, c Claim) (Token, error) {
	const op = "cluster.claim"
	if err := c.check(); err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.live(c.Node, c.Incarnation) {
		return 0, expired(op)
	}
	var token Token
	err := e.db.Update(func(tx *bolt.Tx) error {
		x, there := find(tx, c.Session)
		mine := there && x.Node == c.Node && x.Incarnation == c.Incarnation
		switch c.Mode {
		case New:
			if mine { // the answer to the first claim was lost
				token = x.Token
				return nil
			}
			if there {
				return taken(op, x.Node)
			}
		case Keep:
			if there && x.Token != c.Last && x.Node != c.Node {
				return taken(op, "")
			}
		case Take:
			if there && !mine && e.live(x.Node, x.Incarnation) {
				return taken(op, x.Node)
			}
			if there && !mine && x.Node != "" {
				if left := c.Grace - time.Since(e.gone(x.Node)); left > 0 {
					return missed(op, x.Node, left)
				}
			}
		default:
			return fault.Invalid(op, "mode", "there is no mode %q", c.Mode)
		}
		var err error
		if token, err = next(tx, max(c.Last, x.Token)); err != nil {
			return err
		}
		return put(tx, c.Session, entry{c.Node, c.Incarnation, token, c.Until})
	})
	if err != nil {
		return 0, fileError(op, err)
	}
	e.events.tell(Event{Session: c.Session, Node: c.Node})
	return token, nil
}

// gone is since when a node is missed by those who want a session that it has
// not claimed: since its lease's end, or since it was started again.
// Preconditions: mu is held.
func (e *Embedded) gone(id NodeID) time.Time {
	m := e.nodes[id]
	switch {
	case m == nil:
		return time.Time{}
	case time.Now().Before(m.until):
		return m.begun
	}
	return m.until
}

// live reports whether a node's lease is good.
// Preconditions: mu is held.
func (e *Embedded) live(id NodeID, incarnation Token) bool {
	m := e.nodes[id]
	return m != nil && m.incarnation == incarnation && time.Now().Before(m.until)
}

func find(tx *bolt.Tx, id SessionID) (x entry, there bool) {
	b := tx.Bucket(bucketSessions()).Get([]byte(id))
	if b == nil || json.Unmarshal(b, &x) != nil || time.Now().After(x.Until) {
		return entry{}, false
	}
	return x, true
}

func put(tx *bolt.Tx, id SessionID, x entry) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketSessions()).Put([]byte(id), b)
}

// nobody reports whether a session is parked.
func (e *Embedded) nobody(id SessionID) (is bool) {
	_ = e.db.View(func(tx *bolt.Tx) error {
		x, there := find(tx, id)
		is = there && x.Node == ""
		return nil
	})
	return is
}

// Park says that nobody has the session any more, and that its state is where
// any node can read it.
func (e *Embedded) Park(_ context.Context, id SessionID, token Token, works bool) error {
	err := e.change("cluster.park", id, token, func(tx *bolt.Tx, x entry) error {
		x.Node, x.Incarnation = "", 0
		return put(tx, id, x)
	})
	if err == nil {
		e.events.tell(Event{Session: id, Works: works})
	}
	return err
}

// Forget forgets a session that has ended.
func (e *Embedded) Forget(_ context.Context, id SessionID, token Token) error {
	err := e.change("cluster.forget", id, token, func(tx *bolt.Tx, _ entry) error {
		return tx.Bucket(bucketSessions()).Delete([]byte(id))
	})
	if err == nil {
		e.events.tell(Event{Session: id})
	}
	return err
}

func (e *Embedded) change(op string, id SessionID, token Token, f func(*bolt.Tx, entry) error) error {
	if err := CheckSession(id); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return fileError(op, e.db.Update(func(tx *bolt.Tx) error {
		x, there := find(tx, id)
		if !there {
			return nil
		}
		if x.Token != token {
			return taken(op, x.Node)
		}
		return f(tx, x)
	}))
}

// Find returns a session's owner: NotFound when the directory does not know
// it.
func (e *Embedded) Find(_ context.Context, id SessionID) (Owner, error) {
	const op = "cluster.find"
	if err := CheckSession(id); err != nil {
		return Owner{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	o := Owner{Session: id}
	err := e.db.View(func(tx *bolt.Tx) error {
		x, there := find(tx, id)
		if !there {
			return unknown(op)
		}
		o.Node, o.Token, o.Live = x.Node, x.Token, e.live(x.Node, x.Incarnation)
		if o.Live {
			o.Address = e.nodes[x.Node].info.Address
		}
		return nil
	})
	return o, fileError(op, err)
}

// Nodes lists the nodes whose leases are good.
func (e *Embedded) Nodes(context.Context) ([]Node, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	var all []Node
	for id, m := range e.nodes {
		if now.Before(m.until) && len(all) < MaxNodes {
			all = append(all, Node{ID: id, Info: m.info, Age: now.Sub(m.seen)})
		}
	}
	return all, nil
}

// Watch tells of changes until ctx ends. The first event is empty.
func (e *Embedded) Watch(ctx context.Context) <-chan Event { return e.events.join(ctx) }

func unknown(op string) error {
	return &fault.Error{Kind: fault.NotFound, Op: op, Field: "session", Message: "there is no such session"}
}

// fileError gives what failed in the file a kind.
func fileError(op string, err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	return &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the directory cannot be written", RetryAfter: 1, Err: err}
}
