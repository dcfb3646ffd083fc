package server

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/edition/share"
	"github.com/sandgate/sandgate/internal/edition/survey"
)

// openEditions puts the runtime and the image of the settings into the node's store. It returns the
// settings with the files of the store, which stay as they are when the given ones are replaced.
func openEditions(given *config.Config, try func(context.Context, edition.Files) error,
	log *slog.Logger,
) (*edition.Store, *config.Config, error) {
	of := *given
	cfg := &of
	s, err := edition.Open(cfg.RunscPath(), cfg.ImagePath(), edition.Options{
		Dir: filepath.Join(cfg.DataDir, "editions"), Window: time.Duration(cfg.Upgrade.Window),
		Keep: cfg.Upgrade.Keep, Carry: survey.CarryTime, Try: try, Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	cfg.Image = s.Current().Image
	if runsc := s.Current().Runsc; edition.Reachable(runsc) || !edition.Reachable(cfg.RunscPath()) {
		cfg.Runsc = runsc
	}
	return s, cfg, nil
}

// shareEditions makes a node of a cluster with a blob store put its editions there, and fetch others.
func shareEditions(n *node, counter share.Counter) (survey.Stored, error) {
	if n.membership.blobs == nil || n.cfg.Upgrade.Window == 0 {
		return nil, nil
	}
	s, err := share.New(share.Options{
		Blobs: n.membership.blobs, Secret: n.membership.secret, Counter: counter,
		MaxImage: int64(n.cfg.Upgrade.Share),
	})
	if err == nil {
		n.editions.UseSource(s)
	}
	return s, err
}
