// Package ended remembers the sessions of a node that have ended: whose they were, and why they
// ended.
package ended

import (
	"bufio"
	"bytes"
	"container/list"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// Life is how long a session is remembered after its end.
	Life = 24 * time.Hour
	// MaxTenant is how many sessions of one tenant are remembered, MaxAll how many of all tenants.
	// The oldest ones are forgotten first.
	MaxTenant = 1024
	MaxAll    = 16 * MaxTenant
	// spareLines is how many lines the file may have beyond twice those that are needed.
	spareLines = 1024
)

// Session is a session that has ended.
type Session struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Subject string    `json:"subject,omitempty"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
}

// Store has the sessions of a node that have ended. A line is added to its file for each, so that
// they are known after a restart and after a kill. Its methods are safe for concurrent use.
type Store struct {
	file string
	log  *slog.Logger

	mu    sync.Mutex               // guards all below; a leaf
	order *list.List               // a Session each, the oldest first
	byID  map[string]*list.Element // the elements of order
	// tenants has the elements of each tenant, the oldest first.
	tenants map[string][]*list.Element
	lines   int // in the file
}

// Open returns the store in a file, which need not exist. Lines that cannot be read are left out.
func Open(file string, log *slog.Logger) (*Store, error) {
	s := &Store{
		file: file, log: log, order: list.New(), byID: map[string]*list.Element{},
		tenants: map[string][]*list.Element{},
	}
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.Wrap(fault.Host, "ended.open", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		var e Session
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.ID != "" {
			s.put(e)
		}
	}
	s.expire(time.Now())
	if err := s.rewrite(); err != nil {
		return nil, fault.Wrap(fault.Host, "ended.open", err)
	}
	return s, nil
}

// Remember adds a session. If its line cannot be written, the session is forgotten with the end of
// the process.
func (s *Store) Remember(e Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(e)
	s.expire(e.At)
	err := s.appendLine(e)
	if s.lines > 2*s.order.Len()+spareLines {
		err = errors.Join(err, s.rewrite())
	}
	if err != nil {
		s.log.Warn("the end of a session is not on disk", "session", e.ID, "error", err)
	}
}

// Find returns a session that has ended less than Life before now.
func (s *Store) Find(id string, now time.Time) (Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	e := s.byID[id]
	if e == nil {
		return Session{}, false
	}
	return e.Value.(Session), true
}

// put adds a session, and removes the oldest ones that are too many. Preconditions: mu is held.
func (s *Store) put(e Session) {
	if s.byID[e.ID] != nil {
		return // the first reason counts
	}
	for len(s.tenants[e.Tenant]) >= MaxTenant {
		s.omit(s.tenants[e.Tenant][0])
	}
	for s.order.Len() >= MaxAll {
		s.omit(s.order.Front())
	}
	at := s.order.PushBack(e)
	s.byID[e.ID] = at
	s.tenants[e.Tenant] = append(s.tenants[e.Tenant], at)
}

// omit removes the oldest session of its tenant. Preconditions: mu is held.
func (s *Store) omit(at *list.Element) {
	e := s.order.Remove(at).(Session)
	delete(s.byID, e.ID)
	rest := s.tenants[e.Tenant][1:]
	if len(rest) == 0 {
		delete(s.tenants, e.Tenant)
		return
	}
	s.tenants[e.Tenant] = rest
}

// expire removes the sessions whose end is too long ago. Preconditions: mu is held.
func (s *Store) expire(now time.Time) {
	for at := s.order.Front(); at != nil && now.Sub(at.Value.(Session).At) >= Life; {
		next := at.Next()
		s.omit(at)
		at = next
	}
}

// appendLine adds a line to the file. Preconditions: mu is held.
func (s *Store) appendLine(e Session) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	s.lines++
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// rewrite writes the file without lines that are not needed. Preconditions: mu is held, or nobody
// else uses s yet.
func (s *Store) rewrite() error {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for at := s.order.Front(); at != nil; at = at.Next() {
		if err := out.Encode(at.Value); err != nil {
			return err
		}
	}
	s.lines = s.order.Len()
	return atomicfile.Write(s.file, b.Bytes())
}
