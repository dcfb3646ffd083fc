package e2e

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
)

// TestRunDisconnects checks that callers of POST /v1/run who disconnect at any moment, also
// while their session is created, leave no session.
func TestRunDisconnects(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	s, err := Start(ctx, "pool: {size: 2, languages: [bash], memory: 0}\nsessions: {max: 8}")
	check(t, err)
	defer func() { check(t, s.Stop()) }()
	c, err := wire.New(s.URL, s.Token, wire.Options{})
	check(t, err)
	for range 60 {
		hurried, cancel := context.WithTimeout(ctx, rand.N(60*time.Millisecond))
		res, err := s.Do(hurried, "POST", "/v1/run",
			map[string]any{"language": "bash", "code": "sleep 0.05"})
		if err == nil {
			res.Body.Close()
		}
		cancel()
	}
	for {
		all, err := c.Sessions(ctx)
		check(t, err)
		if len(all) == 0 {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("sessions remain: %+v", all)
		}
	}
}
