package auth

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/tenant"
)

// LocalRunTokenStore is a RunTokenStore in memory, for a gateway without a
// cluster.
type LocalRunTokenStore struct {
	now func() time.Time

	mu      sync.Mutex // guards all below; leaf
	m       map[string]*localRunToken
	origins map[string]int // number of tokens for each
	frames  map[string]int // the same, for tokens to embed
	soonest time.Time      // no token expires before
}

type localRunToken struct {
	tenant.Grant
	expires time.Time
	minute  time.Time // when the present minute of the rate began
	begun   int       // runs of that minute
	places  map[string]struct{}
}

// NewLocalRunTokenStore returns an empty store. now is its clock; nil means
// time.Now.
func NewLocalRunTokenStore(now func() time.Time) *LocalRunTokenStore {
	if now == nil {
		now = time.Now
	}
	return &LocalRunTokenStore{
		now: now, m: map[string]*localRunToken{}, origins: map[string]int{}, frames: map[string]int{},
	}
}

// Add implements RunTokenStore.
func (s *LocalRunTokenStore) Add(_ context.Context, g tenant.Grant, limit int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	if len(s.m) >= limit {
		return fault.New(fault.Exhausted, "auth.run_token", "%d run tickets are out", limit)
	}
	t := &localRunToken{Grant: g, expires: s.now().Add(g.Life), places: map[string]struct{}{}}
	s.m[g.ID] = t
	s.origins[g.Origin]++
	if g.Embed {
		s.frames[g.Origin]++
	}
	if s.soonest.IsZero() || t.expires.Before(s.soonest) {
		s.soonest = t.expires
	}
	return nil
}

// sweep removes expired tokens once the first has expired. A token with a run
// under way stays until that run ends. mu is held.
func (s *LocalRunTokenStore) sweep() {
	now := s.now()
	if len(s.m) == 0 || now.Before(s.soonest) {
		return
	}
	s.soonest = time.Time{}
	for _, t := range s.m {
		switch {
		case now.Before(t.expires):
			if s.soonest.IsZero() || t.expires.Before(s.soonest) {
				s.soonest = t.expires
			}
		case len(t.places) == 0:
			s.remove(t)
		}
	}
}

func (s *LocalRunTokenStore) remove(t *localRunToken) {
	delete(s.m, t.ID)
	count := func(all map[string]int) {
		if all[t.Origin]--; all[t.Origin] <= 0 {
			delete(all, t.Origin)
		}
	}
	count(s.origins)
	if t.Embed {
		count(s.frames)
	}
}

// Find implements RunTokenStore.
func (s *LocalRunTokenStore) Find(_ context.Context, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	t := s.m[id]
	if t == nil || !s.now().Before(t.expires) && len(t.places) == 0 {
		return nil, nil
	}
	return t.Thing, nil
}

// End implements RunTokenStore.
func (s *LocalRunTokenStore) End(_ context.Context, id, _ string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.m[id]
	if t == nil {
		return false, nil
	}
	s.remove(t)
	return true, nil
}

// Begin implements RunTokenStore. The place stays reserved until Leave, which
// this process calls in any case.
func (s *LocalRunTokenStore) Begin(_ context.Context, id, _, place string, _ time.Duration) (tenant.Verdict, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, t := s.now(), s.m[id]
	if t == nil {
		return tenant.Unknown, 0, nil
	}
	if now.Sub(t.minute) >= time.Minute {
		t.minute, t.begun = now, 0
	}
	switch {
	case !now.Before(t.expires):
		return tenant.Over, 0, nil
	case t.Uses == 0:
		return tenant.Used, 0, nil
	case len(t.places) >= t.AtOnce:
		return tenant.Busy, 2 * time.Second, nil
	case t.begun >= t.PerMinute:
		return tenant.Fast, (time.Minute - now.Sub(t.minute)).Truncate(time.Second) + time.Second, nil
	}
	t.Uses--
	t.begun++
	t.places[place] = struct{}{}
	return tenant.Begun, 0, nil
}

// Leave implements RunTokenStore.
func (s *LocalRunTokenStore) Leave(_ context.Context, id, _, place string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.m[id]; t != nil {
		delete(t.places, place)
	}
	// It may be the last run of an expired token.
	s.soonest = time.Time{}
	s.sweep()
	return nil
}

// Names implements RunTokenOrigins. A token without uses left counts, so that
// its page can read the error.
func (s *LocalRunTokenStore) Names(_ context.Context, origin string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	return s.origins[strings.ToLower(origin)] > 0, nil
}

// Framing implements RunTokenOrigins.
func (s *LocalRunTokenStore) Framing(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	out := make([]string, 0, len(s.frames))
	for origin := range s.frames {
		out = append(out, origin)
	}
	return out, nil
}
