package server

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/certificate"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
)

// followEvery is the time between two looks at the followed files.
const followEvery = 5 * time.Second

// followFiles applies the content of certificates and tokens again after their files have changed,
// until ctx ends. Files that do not belong together change nothing: a program may be writing them.
func (r *reloader) followFiles(ctx context.Context) {
	seen := certificate.State(r.followed())
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		items := r.followed()
		state := certificate.State(items)
		if state == seen {
			continue
		}
		if err := r.refresh(ctx); err != nil {
			if text := err.Error(); text != last {
				r.log.Error("changed files could not be read again", "error", err)
				last = text
			}
			continue
		}
		seen, last = state, ""
		r.log.Info("changed files were read again", "files", items)
	}
}

func (r *reloader) followed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.cfg.TLS.Certificates, r.files)
}

// identityFiles returns the files of this machine's identities in a cluster; nil without a cluster.
func identityFiles(cfg *config.Config, roles ...string) (items []string) {
	if cfg.Cluster.Redis == "" {
		return nil
	}
	for _, role := range roles {
		path := filepath.Join(cfg.ClusterDir(), role)
		items = append(items, path+".crt:"+path+".key")
	}
	return append(items, filepath.Join(cfg.ClusterDir(), "ca.crt"))
}

// tokenFiles returns the files of the operator's token.
func tokenFiles(cfg *config.Config) []string {
	return []string{cfg.TokenFile(), previousPath(cfg.TokenFile())}
}

// firstExpiry returns when the first certificate of a gateway expires: of those that it shows to
// clients, and that with which it reaches nodes. It is 0 if there are none.
func firstExpiry(clients []tls.Certificate, nodes *noderpc.Credentials) *time.Time {
	var first time.Time
	if nodes != nil {
		first = nodes.Until()
	}
	for _, c := range clients {
		if c.Leaf != nil && (first.IsZero() || c.Leaf.NotAfter.Before(first)) {
			first = c.Leaf.NotAfter
		}
	}
	return &first
}

// refresh applies the present settings, with the present content of the files that they name.
func (r *reloader) refresh(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*reloadLimit)
	defer cancel()
	return r.apply(ctx, r.cfg)
}
