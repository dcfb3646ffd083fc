package auth

import (
	"context"
	"log/slog"
	"testing"

	"github.com/sandgate/sandgate/internal/tenant"
)

// silentSource is a KeySource that sends nothing.
type silentSource struct{}

func (silentSource) WatchKeys(ctx context.Context, _ func(tenant.News)) error {
	<-ctx.Done()
	return ctx.Err()
}

// testSecret returns the secret of the test's key table.
func testSecret() []byte { return []byte("0123456789abcdef0123456789abcdef") }

// testAuthenticator returns an authenticator whose key table has no keys.
func testAuthenticator(t testing.TB, cfg Config) *Authenticator {
	t.Helper()
	cfg.Keys, cfg.Logger = silentSource{}, slog.New(slog.DiscardHandler)
	if cfg.MaxTickets == 0 {
		cfg.MaxTickets = 100
	}
	a, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.Keys.Update(tenant.News{Table: tenant.Table{Version: 1, Seal: testSecret()}})
	return a
}
