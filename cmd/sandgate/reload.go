package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/config"
)

// reloadLimit is how long a part of the server may take to take up settings.
const reloadLimit = 10 * time.Second

func reloadCommand() command {
	return command{
		name: "reload", short: "Make the running server read its settings and its token again",
		long: `
Needs root. The server reads its file again, with the flags and the environment
that it was started with, takes up what a running server can (docs/configuration.md
says which settings those are), and the token. Connections and sessions stay.
What has changed and what waits for a restart is printed; settings that are not
valid change nothing. SIGHUP to the server does the same and tells its log.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			level := set.String("with-log-level", "", "Logs at this `level` until the next reload: debug, info, warn or error.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			cfg, err := config.Load(flags, a.env)
			if err != nil {
				return err
			}
			report, err := askReload(ctx, cfg, reloadRequest{LogLevel: *level})
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, report.sentence())
			return nil
		},
	}
}

// reloadRequest is what sandgate reload asks over the control socket: one line
// of JSON. The answer is one too.
type reloadRequest struct {
	LogLevel string `json:"log_level,omitempty"`
}

type reloadReport struct {
	// Changed were taken up, Waiting need a restart.
	Changed []string      `json:"changed,omitempty"`
	Waiting []string      `json:"waiting,omitempty"`
	Error   *fault.Public `json:"error,omitempty"`
}

func (r reloadReport) sentence() string {
	var all []string
	if len(r.Changed) > 0 {
		all = append(all, "taken up: "+strings.Join(r.Changed, ", "))
	}
	if len(r.Waiting) > 0 {
		all = append(all, "waits for a restart: "+strings.Join(r.Waiting, ", "))
	}
	if len(all) == 0 {
		return "nothing has changed"
	}
	return strings.Join(all, "; ")
}

// controlSocket is where a running server listens for its operator. Only root
// can open it.
func controlSocket(cfg *config.Config) string { return filepath.Join(cfg.RunDir, "control.sock") }

// askReload asks the server that runs with cfg's run_dir.
func askReload(ctx context.Context, cfg *config.Config, q reloadRequest) (reloadReport, error) {
	const op = "reload"
	var report reloadReport
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "unix", controlSocket(cfg))
	switch {
	case errors.Is(err, os.ErrPermission):
		return report, fault.New(fault.PermissionDenied, op, "only root reloads the server; use sudo")
	case err != nil:
		return report, &fault.Error{Kind: fault.Unavailable, Op: op, Message: "no server runs with run_dir " + cfg.RunDir, Err: err}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(3 * reloadLimit))
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return report, fault.Wrap(fault.Unavailable, op, err)
	}
	if err := json.NewDecoder(conn).Decode(&report); err != nil {
		return report, fault.Wrap(fault.Unavailable, op, err)
	}
	if report.Error != nil {
		return report, report.Error.Err(op)
	}
	return report, nil
}

// reloader is the running server's part in it.
type reloader struct {
	load  func() (*config.Config, error)
	level *slog.LevelVar
	log   *slog.Logger
	// tell gives the parts their settings.
	tell func(ctx context.Context, cfg *config.Config) error

	mu  sync.Mutex // guards cfg; held over a reload
	cfg *config.Config
}

// reload reads the settings again and has them taken up.
func (r *reloader) reload(ctx context.Context, q reloadRequest) (reloadReport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var report reloadReport
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
	if err := r.tell(ctx, became); err != nil {
		return report, err
	}
	_ = r.level.UnmarshalText([]byte(became.Log.Level)) // Apply has checked it
	r.cfg = became
	report.Changed, report.Waiting = changed, waiting
	r.log.Info("settings were read again", "changed", changed, "waiting_for_restart", waiting)
	return report, nil
}

// serveControl answers on the control socket until ctx ends.
func (r *reloader) serveControl(ctx context.Context, cfg *config.Config) (wait func(), err error) {
	const op = "serve.control"
	path := controlSocket(cfg)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	ln, err := listenPrivately(path)
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	context.AfterFunc(ctx, func() { _ = ln.Close() })
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			// One at a time: a reload excludes another.
			r.answer(ctx, conn)
		}
	})
	return work.Wait, nil
}

func (r *reloader) answer(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(reloadLimit))
	var q reloadRequest
	if err := json.NewDecoder(io.LimitReader(conn, 4<<10)).Decode(&q); err != nil {
		return
	}
	report, err := r.reload(ctx, q)
	if err != nil {
		p := fault.PublicOf(err)
		report.Error = &p
	}
	_ = conn.SetDeadline(time.Now().Add(reloadLimit))
	_ = json.NewEncoder(conn).Encode(report)
}

// onHangup calls reload at each SIGHUP until ctx ends. A program that was
// started on a terminal which is no more gets the signal for that reason, and
// ends.
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
			if _, err := r.reload(ctx, reloadRequest{}); err != nil {
				r.log.Error("settings could not be read again; nothing has changed", "error", err)
			}
		}
	}()
}

// follow takes up the settings that the supervisor sends behind the first
// ones, until it goes.
func follow[T any](input *json.Decoder, status *teller, apply func(T) error) {
	for {
		var next T
		if err := input.Decode(&next); err != nil {
			return
		}
		if err := apply(next); err != nil {
			status.say("%s %s", statusReloaded, strings.ReplaceAll(message(err), "\n", " "))
			continue
		}
		status.say("%s", statusReloaded)
	}
}
