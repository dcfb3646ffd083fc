// Package document passes the updates of documents that several clients edit together between
// these clients. It does not know their content.
package document

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
	wire "github.com/sandgate/sandgate/protocol/document"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// linger is how long a document without members is kept, so that members who lost their
	// connections find it again.
	linger = 15 * time.Minute
	// maxOnce is how many names of work of a document are remembered.
	maxOnce = 64
	// maxTake is how many bytes of updates one event has, unless one update is bigger.
	maxTake = 512 << 10
)

// Key names a document.
type Key struct{ Tenant, Session, Path string }

// Store has the open documents of a node. They are only in memory.
type Store struct {
	linger time.Duration

	mu        sync.Mutex // guards all below, with the documents and their members
	documents map[Key]*document
	sessions  map[string]int // documents of each session
	tenants   map[string]int // bytes of each tenant
}

// New returns a Store without documents.
func New() *Store {
	return &Store{
		linger: linger, documents: map[Key]*document{}, sessions: map[string]int{},
		tenants: map[string]int{},
	}
}

// document is an open document.
type document struct {
	key     Key
	epoch   int64
	id      string
	updates []wire.Change // in the order of their numbers
	bytes   int
	last    int64
	done    []work
	members map[uint32]*Member
	since   time.Time   // when the last member left
	idle    *time.Timer // while there are no members
}

type work struct {
	name   string
	client uint32
}

// Member is a client that has joined a document.
type Member struct {
	store    *Store
	document *document
	client   uint32
	wake     func()
	joined   int64 // the last update when it joined
	sent     int64
	presence []byte
	present  map[uint32]struct{} // members whose presence is not sent yet
	left     map[uint32]struct{} // members that have left since
}

// Join makes a client a member. Store calls wake when the member has news, with its lock held, so
// wake does not block. A member with the same number is replaced.
func (s *Store) Join(tenant string, p wire.Join, wake func()) (
	*Member, wire.Joined, error,
) {
	const op = protocol.OpDocumentJoin
	var no wire.Joined
	switch {
	case p.Path == "" || len(p.Path) > wire.MaxPath:
		return nil, no, fault.Invalid(op, "path", "a document's path has between 1 and %d bytes",
			wire.MaxPath)
	case p.Client == 0:
		return nil, no, fault.Invalid(op, "client", "choose a number above 0")
	case p.After < 0:
		return nil, no, fault.Invalid(op, "after", "a position is not negative")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.open(Key{tenant, p.Session, p.Path})
	if err != nil {
		return nil, no, err
	}
	if old := d.members[p.Client]; old == nil && len(d.members) >= wire.MaxMembers {
		return nil, no, fault.New(fault.Exhausted, op, "a document has at most %d members",
			wire.MaxMembers)
	}
	m := &Member{
		store: s, document: d, client: p.Client, wake: wake, joined: d.last,
		present: map[uint32]struct{}{}, left: map[uint32]struct{}{},
	}
	if p.Epoch == d.epoch {
		m.sent = min(p.After, d.last)
	}
	for client, other := range d.members {
		if client != p.Client && other.presence != nil {
			m.present[client] = struct{}{}
		}
	}
	d.members[p.Client] = m
	if d.idle != nil {
		d.idle.Stop()
		d.idle = nil
	}
	if m.sent < d.last || len(m.present) > 0 {
		wake()
	}
	return m, wire.Joined{Epoch: d.epoch, ID: d.id, Last: d.last}, nil
}

// open returns the document with a key. Preconditions: mu is held.
func (s *Store) open(key Key) (*document, error) {
	if d := s.documents[key]; d != nil {
		return d, nil
	}
	if s.sessions[key.Session] >= wire.MaxOpen && !s.dropIdle(func(k Key) bool {
		return k.Session == key.Session
	}) {
		return nil, fault.New(fault.Exhausted, protocol.OpDocumentJoin,
			"a session has at most %d open documents", wire.MaxOpen)
	}
	d := &document{key: key, epoch: newEpoch(), members: map[uint32]*Member{}}
	s.documents[key] = d
	s.sessions[key.Session]++
	return d, nil
}

// newEpoch returns a random number that a JSON number can represent, never 0.
func newEpoch() int64 {
	var b [8]byte
	rand.Read(b[2:]) // never fails
	return int64(binary.BigEndian.Uint64(b[:])) + 1
}

// Pass adds an update, or changes the presence of its sender.
func (s *Store) Pass(tenant string, p wire.Update) (wire.Updated, error) {
	const op = protocol.OpDocumentUpdate
	var no wire.Updated
	switch {
	case len(p.Update) > wire.MaxUpdate:
		return no, fault.New(fault.TooLarge, op, "an update has at most %d bytes",
			wire.MaxUpdate)
	case len(p.Presence) > wire.MaxPresence:
		return no, fault.New(fault.TooLarge, op, "a member's presence has at most %d bytes",
			wire.MaxPresence)
	case len(p.Once) > protocol.MaxKey:
		return no, fault.Invalid(op, "once", "a name has at most %d bytes", protocol.MaxKey)
	case len(p.Update) > 0 && (p.ID == "" || len(p.ID) > protocol.MaxKey):
		return no, fault.Invalid(op, "id", "a document's id has between 1 and %d bytes",
			protocol.MaxKey)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.documents[Key{tenant, p.Session, p.Path}]
	if d == nil || d.epoch != p.Epoch || d.members[p.Client] == nil {
		return no, fault.New(fault.NotFound, op,
			"the client is not a member of this document: join it again")
	}
	if len(p.Update) > 0 {
		if err := s.add(d, p); err != nil {
			return no, err
		}
	}
	if p.Presence != nil {
		d.members[p.Client].presence = p.Presence
	}
	for client, m := range d.members {
		if client == p.Client {
			continue
		}
		if p.Presence != nil {
			m.present[p.Client] = struct{}{}
		}
		m.wake()
	}
	return wire.Updated{Number: d.last, Updates: len(d.updates), Bytes: d.bytes}, nil
}

// add adds an update to a document. Preconditions: mu is held.
func (s *Store) add(d *document, p wire.Update) error {
	const op = protocol.OpDocumentUpdate
	if d.id != "" && d.id != p.ID {
		return &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "id",
			Message: "another document is open under this path",
		}
	}
	if p.Once != "" {
		at := slices.IndexFunc(d.done, func(w work) bool { return w.name == p.Once })
		if at >= 0 && d.done[at].client != p.Client {
			return &fault.Error{
				Kind: fault.Conflict, Op: op, Field: "once",
				Message: "another member has done this",
			}
		}
	}
	kept, bytes := d.updates, 0
	if p.Replaces > 0 {
		kept = slices.DeleteFunc(slices.Clone(kept), func(c wire.Change) bool {
			return c.Number <= p.Replaces
		})
	}
	for _, c := range kept {
		bytes += len(c.Update)
	}
	bytes += len(p.Update)
	if bytes > wire.MaxBytes || len(kept) >= wire.MaxUpdates {
		return fault.New(fault.Exhausted, op, "a document has at most %d updates with %d bytes",
			wire.MaxUpdates, wire.MaxBytes)
	}
	more := bytes - d.bytes
	for s.tenants[d.key.Tenant]+more > wire.MaxTenantBytes {
		if !s.dropIdle(func(k Key) bool { return k.Tenant == d.key.Tenant }) {
			return fault.New(fault.Exhausted, op, "the open documents of a tenant have at most %d bytes",
				wire.MaxTenantBytes)
		}
	}
	s.addBytes(d.key.Tenant, more)
	d.id, d.bytes = p.ID, bytes
	d.last++
	d.updates = append(kept, wire.Change{
		Number: d.last, Client: p.Client, Update: p.Update, Once: p.Once,
	})
	if p.Once != "" {
		d.done = append(d.done, work{p.Once, p.Client})
		d.done = d.done[max(0, len(d.done)-maxOnce):]
	}
	return nil
}

// News returns the next news for the member. It returns false if there are none.
func (m *Member) News() (wire.News, bool) {
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	d := m.document
	news := wire.News{Epoch: d.epoch, ID: d.id, Last: m.sent}
	if d.members[m.client] != m {
		return news, false
	}
	size := 0
	for _, c := range d.updates {
		if c.Number <= m.sent {
			continue
		}
		if size > 0 && size+len(c.Update) > maxTake {
			break
		}
		m.sent, news.Last = c.Number, c.Number
		if c.Client != m.client || c.Number <= m.joined {
			news.Updates = append(news.Updates, c)
			size += len(c.Update)
		}
	}
	for client := range m.present {
		if other := d.members[client]; other != nil {
			news.Members = append(news.Members,
				wire.Member{Client: client, Presence: other.presence})
		}
	}
	for client := range m.left {
		news.Left = append(news.Left, client)
	}
	clear(m.present)
	clear(m.left)
	return news, len(news.Updates)+len(news.Members)+len(news.Left) > 0
}

// Leave ends the membership.
func (m *Member) Leave() {
	s, d := m.store, m.document
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.members[m.client] != m {
		return
	}
	delete(d.members, m.client)
	for _, other := range d.members {
		delete(other.present, m.client)
		other.left[m.client] = struct{}{}
		other.wake()
	}
	if len(d.members) == 0 {
		d.since = time.Now()
		d.idle = time.AfterFunc(s.linger, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.documents[d.key] == d && len(d.members) == 0 {
				s.discard(d)
			}
		})
	}
}

// dropIdle removes the document that has had no members for the longest time, of those that match.
// It returns false if there is none. Preconditions: mu is held.
func (s *Store) dropIdle(match func(Key) bool) bool {
	var oldest *document
	for k, d := range s.documents {
		idle := len(d.members) == 0 && match(k)
		if idle && (oldest == nil || d.since.Before(oldest.since)) {
			oldest = d
		}
	}
	if oldest != nil {
		s.discard(oldest)
	}
	return oldest != nil
}

// discard removes a document without members. Preconditions: mu is held.
func (s *Store) discard(d *document) {
	if d.idle != nil {
		d.idle.Stop()
	}
	delete(s.documents, d.key)
	s.addBytes(d.key.Tenant, -d.bytes)
	if s.sessions[d.key.Session]--; s.sessions[d.key.Session] == 0 {
		delete(s.sessions, d.key.Session)
	}
}

// addBytes adds to the bytes of a tenant. Preconditions: mu is held.
func (s *Store) addBytes(tenant string, bytes int) {
	if s.tenants[tenant] += bytes; s.tenants[tenant] == 0 {
		delete(s.tenants, tenant)
	}
}
