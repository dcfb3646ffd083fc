package server

import (
	"os"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/internal/egress/proxy"
)

// egressConfig returns the policy for connections of sessions to other hosts.
func egressConfig(cfg *config.Config) (proxy.Config, error) {
	private, err := cfg.PrivateNetworks()
	if err != nil {
		return proxy.Config{}, err
	}
	gate, err := egress.New(egress.Config{
		Allow: cfg.Egress.Allow, Private: private, Resolver: cfg.Egress.Resolver,
		Timeout: time.Duration(cfg.Egress.Dial),
		Presets: presets(cfg.ImagePath()),
	})
	if err != nil {
		return proxy.Config{}, err
	}
	out := proxy.Config{
		Gate: gate, Connections: cfg.Egress.Connections, Rate: int64(cfg.Egress.Rate),
		Bytes: int64(cfg.Egress.Bytes), Idle: time.Duration(cfg.Egress.Idle),
	}
	if len(cfg.Egress.Tenants) > 0 {
		out.Tenants = cfg.Egress.Tenants
	}
	return out, nil
}

// presets resolves presets by this machine's configuration and by an image.
func presets(image string) *egress.Presets {
	return &egress.Presets{
		Host: os.DirFS("/"), Env: os.Getenv,
		Image: func(path string) ([]byte, error) { return readImage(image, path) },
	}
}
