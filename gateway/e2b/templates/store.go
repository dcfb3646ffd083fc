package templates

import (
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxArchive bounds one archive, and maxArchives all that a gateway keeps, in bytes.
	maxArchive  = 64 << 20
	maxArchives = 256 << 20
	// maxBuilds bounds the builds that a gateway remembers.
	maxBuilds = 1000
	// keep is how long both are kept.
	keep = time.Hour
)

// key names an archive or a build of a tenant.
type key struct{ tenant, id string }

// request is a build that a client has asked for.
type request struct {
	names   []string // the native templates, one for each tag
	tags    []string
	cpus    float64
	memory  int64
	started bool
	// plan has the steps, for tags that are given later. size is about its size in bytes.
	plan plan
	size int
	at   time.Time
}

// stored is an archive.
type stored struct {
	content []byte
	at      time.Time
}

// store keeps what arrives before a build starts: the files of its COPY steps and its settings. It
// is bounded, and in memory: a build goes through one gateway, and begins again after a restart.
type store struct {
	mu       sync.Mutex // leaf
	archives map[key]stored
	bytes    int
	builds   map[key]*request
}

func newStore() *store { return &store{archives: map[key]stored{}, builds: map[key]*request{}} }

// put keeps an archive. Errors: Exhausted if others fill the store.
func (s *store) put(k key, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	s.bytes -= len(s.archives[k].content)
	delete(s.archives, k)
	if s.bytes+len(content) > maxArchives {
		return full()
	}
	s.bytes += len(content)
	s.archives[k] = stored{content, time.Now()}
	return nil
}

// archive returns an archive.
func (s *store) archive(k key) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.archives[k]
	return a.content, ok
}

// keepBuild keeps a build. Errors: Exhausted.
func (s *store) keepBuild(k key, b *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if len(s.builds) >= maxBuilds {
		return &fault.Error{
			Kind: fault.Exhausted, Op: "e2b.template", RetryAfter: 60,
			Message: "this gateway has as many builds as it can",
		}
	}
	s.builds[k] = b
	return nil
}

// build returns a build, and whether there is one.
func (s *store) build(k key) (request, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.builds[k]
	if !ok {
		return request{}, false
	}
	return *b, true
}

// start marks a build as started and keeps its plan. Errors: Conflict if it was started before,
// Exhausted.
func (s *store) start(k key, p plan, size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.builds[k]
	switch {
	case b == nil || b.started:
		return fault.New(fault.Conflict, "e2b.template", "the build has been started before")
	case s.bytes+size > maxArchives:
		return full()
	}
	s.bytes += size
	b.started, b.plan, b.size = true, p, size
	return nil
}

// undo lets a build start again.
func (s *store) undo(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.builds[k]; b != nil {
		s.bytes -= b.size
		b.started, b.plan, b.size = false, plan{}, 0
	}
}

// full returns the error of a store without place.
func full() error {
	return &fault.Error{
		Kind: fault.Exhausted, Op: "e2b.template", RetryAfter: 60,
		Message: "this gateway keeps as many files of builds as it can",
	}
}

// expire removes what is too old. Preconditions: mu is held.
func (s *store) expire() {
	oldest := time.Now().Add(-keep)
	for k, a := range s.archives {
		if a.at.Before(oldest) {
			s.bytes -= len(a.content)
			delete(s.archives, k)
		}
	}
	for k, b := range s.builds {
		if b.at.Before(oldest) {
			s.bytes -= b.size
			delete(s.builds, k)
		}
	}
}

// validHash reports whether a hash of files has its form.
func validHash(hash string) bool {
	const letters = "0123456789abcdefABCDEF"
	return len(hash) >= 8 && len(hash) <= 128 && strings.Trim(hash, letters) == ""
}
