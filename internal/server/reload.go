package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
)

// reloader reloads the settings of the running server.
type reloader struct {
	load  func() (*config.Config, error)
	level *slog.LevelVar
	log   *slog.Logger
	// files are followed beside the certificates: those of the identities in the cluster, and of the
	// token of a gateway that runs alone.
	files []string
	// apply sends the settings to the parts.
	apply func(ctx context.Context, cfg *config.Config) error

	mu  sync.Mutex // guards cfg; held over a reload
	cfg *config.Config
}

// reload reads the settings again and applies them.
func (r *reloader) reload(ctx context.Context, q ReloadRequest) (ReloadReport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var report ReloadReport
	next, err := r.load()
	if err != nil {
		return report, err
	}
	if q.LogLevel != "" {
		next.Log.Level = q.LogLevel
	}
	became, changed, waiting, err := config.Apply(r.cfg, next)
	if err != nil {
		return report, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*reloadLimit)
	defer cancel()
	if err := r.apply(ctx, became); err != nil {
		return report, err
	}
	_ = r.level.UnmarshalText([]byte(became.Log.Level)) // Apply has checked it
	r.cfg = became
	report.Changed, report.Waiting = changed, waiting
	r.log.Info("settings were read again", "changed", changed, "waiting_for_restart", waiting)
	return report, nil
}

// onHangup calls reload at each SIGHUP until ctx ends. If the program's terminal is gone, the
// signal means that, and end is called.
func (r *reloader) onHangup(ctx context.Context, onTerminal func() bool, end func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	interactive := onTerminal()
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
			}
			if interactive && !onTerminal() {
				end()
				return
			}
			if _, err := r.reload(ctx, ReloadRequest{}); err != nil {
				r.log.Error("settings could not be read again; nothing has changed", "error", err)
			}
		}
	}()
}

// follow applies the settings that the supervisor sends after the first ones, until the pipe ends.
func follow[T any](input *json.Decoder, status *statusPipe, apply func(T) error) {
	for {
		var next T
		if err := input.Decode(&next); err != nil {
			return
		}
		if err := apply(next); err != nil {
			status.report("%s %s", statusReloaded, strings.ReplaceAll(console.ErrorText(err), "\n",
				" "))
			continue
		}
		status.report("%s", statusReloaded)
	}
}
