package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync/atomic"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Turn is the right to do the work of a request, which one caller has at a time. The caller calls one
// of the methods. Later calls have no effect.
type Turn struct {
	// Seed is a random text that stays the same when the work is done again.
	Seed string
	// Again is true if an earlier attempt was interrupted. It may have done the work.
	Again bool

	s     *Store
	r     *record
	ended atomic.Bool
	// life is that of ReadNote.
	life context.Context
}

// Done keeps the result of the work.
func (t *Turn) Done(result []byte) {
	if len(result) > MaxResult {
		t.TooLarge()
		return
	}
	t.settle(done, result, nil)
}

// TooLarge marks work whose result is too large to be kept.
func (t *Turn) TooLarge() {
	t.s.stats.TooLarge.Add(1)
	t.settle(large, nil, nil)
}

// Forget removes the record of work that did nothing. The callers that wait get the error. A caller
// may then begin with other parameters.
func (t *Turn) Forget(err error) { t.settle(forgotten, nil, err) }

// Break marks work that had a part of its effect. A repeat is refused.
func (t *Turn) Break() { t.settle(broken, nil, nil) }

// Leave lets the next caller do the work again, with the same seed.
func (t *Turn) Leave() { t.settle(begun, nil, nil) }

// settle stores an outcome and wakes those who wait. The memory has the outcome before the journal,
// so that a compaction meanwhile does not lose it.
func (t *Turn) settle(o outcome, result []byte, failed error) {
	if t.ended.Swap(true) {
		return
	}
	s, r := t.s, t.r
	s.mu.Lock()
	s.count(r, int64(len(result)-len(r.result)))
	r.outcome, r.result, r.failed = o, result, failed
	l := r.stored()
	s.mu.Unlock()
	if o != begun {
		l = line{ID: l.ID, Outcome: l.Outcome, Result: l.Result}
		if err := s.write(l, false); err != nil {
			// The memory has the outcome. After a restart the request counts as interrupted.
			s.log.Error("the outcome of a request with a key was not written", "error", err)
		}
	}
	s.mu.Lock()
	close(r.running)
	r.running = nil
	if o == forgotten {
		s.remove(r)
		s.stats.Forgotten.Add(1)
	} else {
		s.shrink(r)
	}
	s.mu.Unlock()
	s.tidy()
}

// Hash returns the hash of parameters. JSON values that differ in spaces or in the order of fields
// have the same hash.
func Hash(parts ...[]byte) []byte {
	h := sha256.New()
	for _, p := range parts {
		p = canonical(p)
		size := [8]byte{}
		for i, n := 0, len(p); i < len(size); i, n = i+1, n>>8 {
			size[i] = byte(n)
		}
		h.Write(size[:])
		h.Write(p)
	}
	return h.Sum(nil)
}

// canonical returns JSON without spaces and with sorted fields. Other bytes stay.
func canonical(p []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return p
	}
	out, err := json.Marshal(v)
	if err != nil {
		return p
	}
	return out
}

// Stats are counters since the store was opened.
type Stats struct {
	// Begun counts first requests with a key, Replayed repeats that got a kept result, Waited waits
	// for a request in progress, Resumed attempts after an interrupted one.
	Begun, Replayed, Waited, Resumed atomic.Int64
	// Conflicts counts repeats that were refused, Refused requests without room.
	Conflicts, Refused atomic.Int64
	// Forgotten counts records of work that did nothing, Evicted records that made room for others,
	// TooLarge results that were not kept.
	Forgotten, Evicted, TooLarge atomic.Int64
	// Failed counts lines that the disk did not take.
	Failed atomic.Int64
}

// write writes a line to the journal if there is one.
func (s *Store) write(l line, sync bool) error {
	if s.file == nil {
		return nil
	}
	err := s.file.write(l, sync)
	if err != nil {
		s.stats.Failed.Add(1)
	}
	return fault.Wrap(fault.DiskFull, "idempotency.write", err)
}
