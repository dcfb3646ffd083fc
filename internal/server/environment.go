package server

import (
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol/fault"
)

// checkListen refuses an address that other machines reach, unless the settings allow it, and TLS
// without certificates.
func checkListen(cfg *config.Config) error {
	if err := cfg.TLS.Complete(); err != nil {
		return err
	}
	if cfg.Loopback() || cfg.Insecure {
		return nil
	}
	return fault.Invalid("serve", "listen",
		"%s can be reached from other machines and there is no TLS: tokens and code would cross the network unencrypted; "+
			"listen on 127.0.0.1 and set --tls-listen, or set --insecure-listen-without-tls",
		cfg.Listen)
}

// MakeDir makes a directory of mode 0711, with those above it.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return &fault.Error{Kind: fault.Host, Op: "serve", Message: "cannot make " + dir, Err: err}
	}
	// The umask may have removed the search bit, which the gateway needs.
	if err := os.Chmod(dir, 0o711); err != nil {
		return &fault.Error{Kind: fault.Host, Op: "serve", Message: "cannot change the mode of " +
			dir, Err: err}
	}
	return nil
}

// GatewayUser returns the user that the gateway runs as.
func GatewayUser(cfg *config.Config) (*syscall.Credential, string, error) {
	const op = "serve.user"
	names := []string{cfg.User}
	if cfg.User == "" {
		names = []string{"sandgate", "nobody"}
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		if uid == 0 {
			return nil, "", fault.Invalid(op, "gateway_user", "the gateway must not run as root")
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}, name,
			nil
	}
	return nil, "", fault.Invalid(op, "gateway_user", "there is no user %s on this machine",
		strings.Join(names, " or "))
}

// childEnv is the environment of the parts. They get their settings over a pipe.
func childEnv(a *console.Invocation) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
	}
	for _, name := range []string{"TZ", "GODEBUG", "GOTRACEBACK", "GOMEMLIMIT", "GOGC", "TMPDIR"} {
		if v := a.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		} else if name == "GODEBUG" {
			// Goroutines start with stacks of 2 KiB instead of the average of earlier ones: most of
			// them wait on an idle connection.
			env = append(env, "GODEBUG=adaptivestackstart=0")
		}
	}
	return env
}

// gatewayEnv makes the gateway collect garbage twice as often. Its memory is mostly idle
// connections, which produce little garbage.
func gatewayEnv(env []string) []string {
	for _, v := range env {
		if strings.HasPrefix(v, "GOGC=") {
			return env
		}
	}
	return append(slices.Clone(env), "GOGC=50")
}

func url(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// newLogger returns the server's log, with a level that can be changed.
func newLogger(cfg *config.Config, w io.Writer, level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // Validate has checked it
	options := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
