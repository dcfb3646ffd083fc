package auth

import (
	"context"
	"sync"
	"time"
)

// LocalOneTimeStore is a OneTimeStore in memory, for a gateway without a
// cluster.
type LocalOneTimeStore struct {
	limit int

	mu sync.Mutex // guards all below; leaf
	m  map[string]oneTimeValue
}

type oneTimeValue struct {
	value   []byte
	expires time.Time
}

// NewLocalOneTimeStore returns a store of at most limit values.
func NewLocalOneTimeStore(limit int) *LocalOneTimeStore {
	return &LocalOneTimeStore{limit: limit, m: make(map[string]oneTimeValue)}
}

// Put implements OneTimeStore. It fails with Exhausted if the store is full.
func (s *LocalOneTimeStore) Put(_ context.Context, name string, value []byte, life time.Duration) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.m) >= s.limit {
		for k, t := range s.m {
			if now.After(t.expires) {
				delete(s.m, k)
			}
		}
		if len(s.m) >= s.limit {
			return errTickets(life)
		}
	}
	s.m[name] = oneTimeValue{value, now.Add(life)}
	return nil
}

// Take implements OneTimeStore.
func (s *LocalOneTimeStore) Take(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.m[name]
	delete(s.m, name)
	if !ok || time.Now().After(t.expires) {
		return nil, nil
	}
	return t.value, nil
}
