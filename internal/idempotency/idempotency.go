// Package idempotency remembers the replies to requests that have an idempotency key, so that a
// repeat of a request gets the same reply and has no second effect.
//
// The life of a request with a key: Ask writes an intent to the journal and gives the first caller
// a Turn. Callers with the same key wait. The first caller does the work and calls one method of the
// Turn that ends it. Done writes the result to the journal. A process that was killed before that
// leaves the intent: the next caller gets a Turn with Again and with the same Seed, from which the
// ids of created things follow.
package idempotency

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The bounds of a store.
const (
	// Life is how long a record is kept after the request began.
	Life = 24 * time.Hour
	// MaxResult is the size of the largest result that is kept, in bytes.
	MaxResult = 1 << 20
	// MaxRecords and MaxBytes bound the records of a tenant, MaxTotal bounds those of all tenants in
	// bytes. The oldest record makes room for a new one.
	MaxRecords = 10_000
	MaxBytes   = 32 << 20
	MaxTotal   = 256 << 20
	// overhead is the size of a record without its result, in bytes.
	overhead = 512
)

// Scope is the name of a request: the same key of another caller or operation is another request.
type Scope struct{ Tenant, Subject, Operation, Key string }

// digest returns a name of the scope that does not contain the key.
func (s Scope) digest() string {
	h := sha256.New()
	for _, part := range []string{s.Tenant, s.Subject, s.Operation, s.Key} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Request is a request with a key.
type Request struct {
	Scope
	// Hash is the hash of the parameters: see Hash.
	Hash []byte
	// Secret is true if the result contains a secret. It is not written to disk then.
	Secret bool
	// Sync makes Ask wait until the disk has the intent, so that it survives a loss of power. An
	// intent always survives a killed process.
	Sync bool
}

// Options configure a store.
type Options struct {
	// Dir is the folder of the journal, which is created if it is missing. Without a folder the
	// records are only in memory.
	Dir string
	// Life, MaxRecords, MaxBytes and MaxTotal default to the constants.
	Life               time.Duration
	MaxRecords         int
	MaxBytes, MaxTotal int64
	// Log defaults to none.
	Log *slog.Logger
}

// Store has the records of a node. Its methods may be called concurrently.
type Store struct {
	o     Options
	log   *slog.Logger
	file  *file // nil without a folder
	stats Stats
	notes notes

	mu      sync.Mutex // guards all below, and the records; a leaf, except for the file's lock
	records map[string]*record
	// order has all records, the oldest first.
	order   *list.List
	tenants map[string]*share
	bytes   int64
}

// share is the records of one tenant, the oldest first.
type share struct {
	order *list.List
	bytes int64
}

// outcome says how far a request is.
type outcome string

// The outcomes.
const (
	begun     outcome = ""          // in progress, or interrupted
	done      outcome = "done"      // the result is known
	secret    outcome = "secret"    // done; the result is not on disk
	large     outcome = "large"     // done; the result was too large to keep
	broken    outcome = "broken"    // it may have had a part of its effect
	forgotten outcome = "forgotten" // it did nothing: the record is removed
)

// record is one request.
type record struct {
	line
	outcome outcome
	result  []byte
	// secret is true if the result must not be on disk.
	secret bool
	// running is closed when the work ends; nil if nobody works on it.
	running chan struct{}
	// failed is the error with which the work ended; the waiting callers get it.
	failed error

	global, own *list.Element
}

// stored returns the record as a line of the journal.
func (r *record) stored() line {
	l := r.line
	l.Outcome, l.Result = r.outcome, r.result
	if r.secret && r.outcome == done {
		l.Outcome, l.Result = secret, nil
	}
	return l
}

func (r *record) size() int64 { return overhead + int64(len(r.result)) }

// Open returns a store with the records of the folder.
func Open(o Options) (*Store, error) {
	if o.Life <= 0 {
		o.Life = Life
	}
	if o.MaxRecords <= 0 {
		o.MaxRecords = MaxRecords
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = MaxBytes
	}
	if o.MaxTotal <= 0 {
		o.MaxTotal = MaxTotal
	}
	s := &Store{
		o: o, log: o.Log, records: map[string]*record{}, order: list.New(),
		tenants: map[string]*share{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.Dir == "" {
		return s, nil
	}
	return s, s.load()
}

// Close closes the journal.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.close()
}

// Stats returns the counters.
func (s *Store) Stats() *Stats { return &s.stats }

// Ask returns the right to do the work of a request, or the result of an earlier request with the
// same key. While another caller works on it, Ask waits, at most until ctx ends.
//
// Errors: Conflict for a key that was used with other parameters, or whose result is not available
// any more; Exhausted if the tenant has too many requests in progress; the error of the caller that
// Ask has waited for; Canceled; those of the disk.
func (s *Store) Ask(ctx context.Context, q Request) (*Turn, []byte, error) {
	const op = "idempotency.begin"
	id := q.digest()
	for {
		s.mu.Lock()
		s.expire(time.Now())
		r := s.records[id]
		if r == nil {
			return s.first(q, id)
		}
		if string(r.Hash) != string(q.Hash) {
			s.mu.Unlock()
			s.stats.Conflicts.Add(1)
			return nil, nil, conflict(op, "the key was used for a request with other parameters; "+
				"use a new key for a new request")
		}
		running := r.running
		if running == nil {
			return s.repeat(q, r)
		}
		s.mu.Unlock()
		s.stats.Waited.Add(1)
		select {
		case <-running:
		case <-ctx.Done():
			return nil, nil, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
		s.mu.Lock()
		failed := r.failed
		s.mu.Unlock()
		// If the caller has left, another one does the work.
		if failed != nil && !fault.Is(failed, fault.Canceled) {
			return nil, nil, failed
		}
	}
}

// first records the first request with its key. It unlocks mu.
func (s *Store) first(q Request, id string) (*Turn, []byte, error) {
	r := &record{line: line{
		ID: id, Tenant: q.Tenant, Hash: q.Hash, Seed: rand.Text(), Began: time.Now().UnixMilli(),
	}, secret: q.Secret, running: make(chan struct{})}
	if err := s.add(r); err != nil {
		s.mu.Unlock()
		return nil, nil, err
	}
	s.mu.Unlock()
	t := &Turn{Seed: r.Seed, s: s, r: r}
	if err := s.write(r.line, q.Sync); err != nil {
		t.Forget(err)
		return nil, nil, err
	}
	s.stats.Begun.Add(1)
	return t, nil, nil
}

// repeat answers a repeat of a request that nobody works on. It unlocks mu.
func (s *Store) repeat(q Request, r *record) (*Turn, []byte, error) {
	const op = "idempotency.begin"
	defer s.mu.Unlock()
	switch r.outcome {
	case done:
		s.stats.Replayed.Add(1)
		return nil, r.result, nil
	case begun:
		s.stats.Resumed.Add(1)
		r.secret, r.running, r.failed = q.Secret, make(chan struct{}), nil
		return &Turn{Seed: r.Seed, Again: true, s: s, r: r}, nil, nil
	}
	s.stats.Conflicts.Add(1)
	switch r.outcome {
	case secret:
		return nil, nil, conflict(op, "the request with this key has succeeded, and its reply with "+
			"a secret was lost when the server restarted; look for what it has created, or repeat "+
			"it with a new key")
	case large:
		return nil, nil, conflict(op, "the request with this key has succeeded, and its reply was "+
			"too large to be kept")
	}
	return nil, nil, conflict(op, "the request with this key was interrupted, and may have had an "+
		"effect; look for what it has done, or repeat it with a new key")
}

func conflict(op, message string) error {
	return &fault.Error{
		Kind: fault.Conflict, Op: op, Field: "idempotency_key", Message: message,
	}
}

// add adds a record. The oldest records that nobody works on make room for it. Preconditions: mu is
// held. Errors: Exhausted.
func (s *Store) add(r *record) error {
	own := s.tenants[r.Tenant]
	if own == nil {
		own = &share{order: list.New()}
		s.tenants[r.Tenant] = own
	}
	for own.order.Len() >= s.o.MaxRecords {
		if !s.evict(own.order) {
			s.stats.Refused.Add(1)
			return &fault.Error{
				Kind: fault.Exhausted, Op: "idempotency.begin", RetryAfter: 1,
				Message: "too many requests with idempotency keys are in progress",
			}
		}
	}
	s.records[r.ID] = r
	r.global, r.own = s.order.PushBack(r), own.order.PushBack(r)
	s.count(r, r.size())
	s.shrink(r)
	return nil
}

// count adds bytes to the sums. Preconditions: mu is held.
func (s *Store) count(r *record, n int64) {
	s.bytes += n
	s.tenants[r.Tenant].bytes += n
}

// shrink removes the oldest records until the sums are within their bounds. Preconditions: mu is
// held.
func (s *Store) shrink(r *record) {
	own := s.tenants[r.Tenant]
	for own.bytes > s.o.MaxBytes && s.evict(own.order) {
	}
	for s.bytes > s.o.MaxTotal && s.evict(s.order) {
	}
}

// evict removes the oldest record of a list that nobody works on. It returns false if there is none.
// Preconditions: mu is held.
func (s *Store) evict(order *list.List) bool {
	for e := order.Front(); e != nil; e = e.Next() {
		if r := e.Value.(*record); r.running == nil {
			s.remove(r)
			s.stats.Evicted.Add(1)
			return true
		}
	}
	return false
}

// expire removes the records whose life has ended. Preconditions: mu is held.
func (s *Store) expire(now time.Time) {
	before := now.Add(-s.o.Life).UnixMilli()
	for e := s.order.Front(); e != nil; {
		r := e.Value.(*record)
		e = e.Next()
		if r.Began > before {
			return
		}
		if r.running == nil {
			s.remove(r)
		}
	}
}

// remove removes a record. Preconditions: mu is held.
func (s *Store) remove(r *record) {
	delete(s.records, r.ID)
	s.count(r, -r.size())
	s.order.Remove(r.global)
	own := s.tenants[r.Tenant]
	own.order.Remove(r.own)
	if own.order.Len() == 0 {
		delete(s.tenants, r.Tenant)
	}
}

// Records returns the number of records and their size in bytes.
func (s *Store) Records() (n int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	return len(s.records), s.bytes
}
