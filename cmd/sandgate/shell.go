package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// shellOptions are the flags of shell.
type shellOptions struct {
	session, language, cwd string
	env                    list
	keep                   bool
}

func shellCommand() command {
	return command{
		name: "shell", args: "[COMMAND ARGUMENTS]", short: "Open a shell, or another program, in a terminal of a sandbox",
		long: `
It behaves as ssh does: full-screen programs, sizes, Ctrl-C and the exit status
are those of the program. A lost connection is made anew, and nothing is lost.

At the beginning of a line ~. detaches: the program goes on, and attach comes
back to it. ~~ types a ~, ~? says what there is.

Without --session it takes a new session, which is removed when the program
ends.

  sandgate shell
  sandgate shell --session s_abc htop`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			var o shellOptions
			set.StringVar(&o.session, "session", "", "Open it in this `session`, which is kept.")
			set.StringVar(&o.language, "language", "", "`language` that is warm in a new session.")
			set.StringVar(&o.cwd, "cwd", "", "`directory` to start in; else the home.")
			set.Var(&o.env, "env", "Environment `variable`, NAME=VALUE or NAME; may be given again.")
			set.BoolVar(&o.keep, "keep", false, "Keep the session and print its id on standard error.")
			if err := parse(set, args, 0, -1); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return runShell(ctx, a, c, o, set.Args())
		},
	}
}

func attachCommand() command {
	return command{
		name: "attach", args: "SESSION [TERMINAL]", short: "Come back to a terminal",
		long: `
TERMINAL is a channel that ps lists; else the session's newest that runs. What
it printed last is shown again, in the modes that it was printed in. ~. at the
beginning of a line detaches. Several can be attached at once: the terminal has
the size of the one who typed last.

  sandgate attach s_abc
  sandgate attach --read-only s_abc t2`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			readOnly := set.Bool("read-only", false, "Watch, and type nothing.")
			tail := set.Int64("tail", 64<<10, "How many `bytes` of earlier output to show.")
			if err := parse(set, args, 1, 2); err != nil {
				return err
			}
			if *tail < 1 {
				return usagef("--tail is 1 or more")
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return runAttach(ctx, a, c, set.Arg(0), set.Arg(1), *readOnly, *tail)
		},
	}
}

func runShell(ctx context.Context, a *app, c *client.Client, o shellOptions, argv []string) (err error) {
	l, err := a.lend()
	if err != nil {
		return err
	}
	id := o.session
	if id == "" {
		s, err := c.CreateSession(ctx, protocol.SessionCreate{Language: o.language, Name: "shell"})
		if err != nil {
			return err
		}
		id = s.ID
	}
	detached := false
	defer func() {
		if o.session != "" || detached {
			return
		}
		if o.keep {
			fmt.Fprintf(a.err, "session %s\n", id)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if derr := c.DeleteSession(ctx, id); derr != nil && !fault.Is(derr, fault.NotFound) && err == nil {
			err = derr
		}
	}()
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	cols, rows := l.size()
	ch, err := conn.OpenChannel(ctx, protocol.ChannelOpen{
		Session: id, Kind: "terminal", Argv: argv, Cwd: o.cwd, Env: environment(a, o.env), Cols: cols, Rows: rows,
	})
	if err != nil {
		return err
	}
	t, err := conn.Terminal(ctx, id, ch.ID, client.AttachOptions{Cols: cols, Rows: rows})
	if err != nil {
		return err
	}
	l.answered = func() bool { return conn.Reconnects() == 0 }
	detached, err = l.drive(ctx, t)
	if detached {
		fmt.Fprintf(a.err, "[detached; sandgate attach %s %s comes back]\n", id, ch.ID)
	}
	return err
}

func runAttach(ctx context.Context, a *app, c *client.Client, id, channel string, readOnly bool, tail int64) error {
	l, err := a.lend()
	if err != nil {
		return err
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if channel == "" {
		if channel, err = newestTerminal(ctx, conn, id); err != nil {
			return err
		}
	}
	o := client.AttachOptions{Offset: -tail, ReadOnly: readOnly}
	if !readOnly {
		o.Cols, o.Rows = l.size()
	}
	t, err := conn.Terminal(ctx, id, channel, o)
	if err != nil {
		return err
	}
	if t.Channel().Kind != "terminal" {
		return fault.Invalid("attach", "TERMINAL", "%s is a %s; sandgate logs shows its output", channel, t.Channel().Kind)
	}
	l.readOnly = readOnly
	detached, err := l.drive(ctx, t)
	if detached {
		fmt.Fprintln(a.err, "[detached]")
	}
	return err
}

func newestTerminal(ctx context.Context, conn *client.Conn, id string) (string, error) {
	all, err := conn.Channels(ctx, id)
	if err != nil {
		return "", err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Kind == "terminal" && all[i].State == "running" {
			return all[i].ID, nil
		}
	}
	return "", fault.New(fault.NotFound, "attach", "no terminal runs in %s; sandgate shell --session %s opens one", id, id)
}

// loan is the user's own terminal, lent to a program in a sandbox. However the
// program and this command end, the user gets it back as it was.
type loan struct {
	a        *app
	in, out  *os.File
	readOnly bool
	changes  chan os.Signal // of its size, since before it was first told
	// answered reports whether this terminal was there when the output that
	// is older than the attachment was written, so that its questions are new.
	answered func() bool
	old      *pty.Quiet // the filter, while old output is shown
	scan     *pty.Scanner
}

// lend takes the terminal that this command was started in.
func (a *app) lend() (*loan, error) {
	out, ok := a.out.(*os.File)
	if !ok || !terminal(a.in) || !terminal(out) {
		return nil, fault.New(fault.InvalidArgument, "shell", "this needs a terminal on standard input and output; sandgate run needs none")
	}
	l := &loan{a: a, in: a.in, out: out, changes: make(chan os.Signal, 1), answered: func() bool { return false }}
	signal.Notify(l.changes, syscall.SIGWINCH)
	return l, nil
}

func (l *loan) size() (cols, rows int) {
	cols, rows, err := term.GetSize(int(l.out.Fd()))
	if err != nil || cols < 1 || rows < 1 {
		return pty.DefaultCols, pty.DefaultRows
	}
	return min(cols, pty.MaxCols), min(rows, pty.MaxRows)
}

// drive connects the two terminals until the program ends, which gives its
// status as the error, or the user detaches.
func (l *loan) drive(ctx context.Context, t *client.Terminal) (detached bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(ended)
	defer signal.Stop(l.changes)

	raw, err := term.MakeRaw(int(l.in.Fd()))
	if err != nil {
		return false, fault.Wrap(fault.Host, "shell.terminal", err)
	}
	cols, rows := l.size()
	l.scan = pty.NewScanner(pty.Size{Cols: cols, Rows: rows})
	defer func() {
		_, _ = l.out.Write(l.scan.State().Normal())
		_ = term.Restore(int(l.in.Fd()), raw)
		if detached {
			fmt.Fprintln(l.a.err)
		}
	}()

	var left atomic.Bool // by the escape, or because the terminal is gone
	var killed atomic.Int32
	go func() {
		for {
			select {
			case s := <-ended:
				sig, _ := s.(syscall.Signal)
				killed.Store(int32(sig))
				cancel()
				return
			case <-l.changes:
				if cols, rows := l.size(); !l.readOnly {
					_ = t.Resize(ctx, cols, rows) // it can only have ended
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() {
		l.feed(ctx, t)
		left.Store(true)
		cancel()
	}()
	err = l.show(ctx, t)
	switch {
	case killed.Load() != 0:
		return false, exitStatus(128 + int(killed.Load()))
	case err != nil && left.Load():
		return true, nil
	case err != nil:
		return false, err
	}
	if e := t.Exit(); e != nil {
		if err := client.ExitError(*e); err != nil {
			return false, err
		}
		if e.Code != 0 {
			return false, exitStatus(e.Code)
		}
	}
	return false, nil
}

// feed passes keys on until the user detaches or the terminal is gone.
func (l *loan) feed(ctx context.Context, t *client.Terminal) {
	var e escapes
	buf := make([]byte, 32<<10)
	for {
		n, err := l.in.Read(buf)
		keys, what := e.feed(buf[:n])
		if len(keys) > 0 && !l.readOnly {
			if t.Type(ctx, keys) != nil {
				<-ctx.Done() // the output says why
				return
			}
		}
		switch {
		case what == detach || err != nil:
			return
		case what == help:
			_, _ = io.WriteString(l.out, escapeHelp)
		}
	}
}

// show writes the program's output until its end.
func (l *loan) show(ctx context.Context, t *client.Terminal) error {
	for {
		r, err := t.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var b []byte
		switch r.Kind {
		case stream.KindStdout:
			b = l.filter(r.Payload, t.Old() && !l.answered())
		case stream.KindRestore:
			s, err := client.Restored(r)
			if err != nil {
				return err
			}
			if l.answered() {
				continue // it is the one that the program began in
			}
			b = l.filter(s.Data, true)
		case stream.KindGap:
			var g stream.Gap
			_ = json.Unmarshal(r.Payload, &g)
			b = fmt.Appendf(nil, "\r\n[sandgate: %d bytes of output are no longer there]\r\n", g.Bytes)
		}
		if l.old != nil && !t.Behind() {
			b = l.old.End(b)
			l.old = nil
		}
		if len(b) == 0 {
			continue
		}
		l.scan.Write(b)
		if _, err := l.out.Write(b); err != nil {
			return fault.Wrap(fault.Canceled, "shell.write", err)
		}
	}
}

// filter takes questions out of old output.
func (l *loan) filter(b []byte, old bool) []byte {
	if !old {
		return b
	}
	if l.old == nil {
		l.old = pty.NewQuiet()
	}
	return l.old.Append(nil, b)
}
