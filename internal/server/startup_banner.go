package server

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/sandgate/sandgate/internal/profile"
)

// startupBanner prints the progress of a start, and once, when the server is ready, its address.
type startupBanner struct {
	out    io.Writer
	url    string
	token  string
	caller Caller

	mu    sync.Mutex // guards all below
	ready map[string]bool
	warm  bool
	shown bool
}

func newStartupBanner(out io.Writer, url, token string, caller Caller) *startupBanner {
	return &startupBanner{
		out: out, url: url, token: token, caller: caller,
		ready: make(map[string]bool),
	}
}

func (n *startupBanner) status(part, line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch line {
	case statusReady:
		n.ready[part] = true
	case statusWarm:
		n.warm = true
	default:
		if !n.shown {
			fmt.Fprintln(n.out, line)
		}
	}
	if n.shown || !n.warm || !n.ready["node"] || !n.ready["gateway"] {
		return
	}
	n.shown = true
	// This sends nothing if systemd has not started the server.
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	fmt.Fprintf(n.out, "\nSandgate is ready:\n\n  %s/#token=%s\n\n", n.url, n.token)
	program := "sandgate"
	if exe, err := os.Executable(); err == nil {
		program = exe
		if wd, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(wd, exe); err == nil && !strings.HasPrefix(rel, "..") {
				program = rel
			}
		}
	}
	if err := profile.Write(n.caller.Home, n.caller.UID, n.caller.GID,
		profile.Profile{URL: n.url, Token: n.token}); err != nil {
		fmt.Fprintf(
			n.out, "The profile for the command line could not be written (%v). In another terminal, first:\n\n  export SANDGATE_URL=%s/#token=…\n\n", err, n.url)
	}
	fmt.Fprintf(
		n.out, "In another terminal:\n\n  %[1]s run FILE.py\n  %[1]s repl python\n  %[1]s doctor\n\nCtrl-C ends it.\n", program)
}
