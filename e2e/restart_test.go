package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestRestartKeepsSessions stops the server while a cell counts and a terminal is
// open, and starts it again. The clients reconnect by themselves and get exactly the
// missing output. Their next request resumes the session.
func TestRestartKeepsSessions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}")
	check(t, err)
	defer func() {
		check(t, srv.Stop())
		for _, left := range leftovers(srv) {
			t.Error(left)
		}
	}()
	s := open(t, srv)
	s.run(
		"ok", "import pandas\nx = pandas.DataFrame({'a': range(10)})\nopen('kept', 'w').write('in a file')")
	idle := open(t, srv)
	idle.run("ok", "y = 1")
	v := s.terminal(protocol.ChannelOpen{})
	v.do("held=in-the-shell; echo rea''dy", "ready")
	before := v.seen()
	cell := s.begin(
		"import time\nfor i in range(400):\n    print(i, flush=True)\n    time.sleep(0.005)")
	restarted := false
	out := s.collect(cell, func(r frame.Record) {
		if r.Kind != frame.KindStdout || restarted {
			return
		}
		restarted = true
		begin := time.Now()
		check(t, srv.Halt(syscall.SIGTERM))
		t.Logf("stopping: %s", time.Since(begin))
		if left := leftovers(srv); len(left) > 0 {
			t.Errorf("while it is stopped: %v", left)
		}
		check(t, srv.Boot(ctx))
	})
	// The cell has continued without a request. The idle session stays hibernated.
	found, err := s.client.Session(ctx, idle.id)
	check(t, err)
	if found.State != "hibernated" {
		t.Errorf("the idle session is %s", found.State)
	}
	var want strings.Builder
	for i := range 400 {
		fmt.Fprintln(&want, i)
	}
	if out.stdout != want.String() || out.reply.Status != "ok" {
		t.Errorf("got %d bytes, want %d: %+v\n%s", len(out.stdout), want.Len(), out.reply,
			out.stdout)
	}
	if s.conn.Reconnects() == 0 {
		t.Error("the client never reconnected: the server was not stopped")
	}
	if got := idle.run("ok", "y").result(t); got != "1" {
		t.Errorf("the idle session kept %s", got)
	}
	if got := s.run("ok", "int(x.a.sum()), open('kept').read()").result(
		t); got != "(45, 'in a file')" {
		t.Errorf("kept: %s", got)
	}
	v.do("echo $held", "\rin-the-shell")
	v.mu.Lock()
	if v.gaps > 0 || len(v.restore) > 1 || !strings.Contains(v.text.String()[before:],
		"echo $held") {
		t.Errorf("the terminal: %d gaps, %d restores, %q", v.gaps, len(v.restore),
			v.text.String()[before:])
	}
	v.mu.Unlock()
}

// TestStartAfterKilledSupervisor kills the supervisor of a server whose node then saves its
// sessions, and starts the server again at once. The new server waits for the old node. A third
// server with the same folders is refused while the second runs.
func TestStartAfterKilledSupervisor(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	s := open(t, srv)
	s.run("ok", "x = 6 * 7")
	locks, err := filepath.Glob(filepath.Join(srv.Dir, "run", "*", "lock"))
	check(t, err)
	if len(locks) != 1 {
		t.Fatalf("the locks of the node: %v", locks)
	}
	lock, err := os.Open(locks[0])
	check(t, err)
	defer lock.Close()
	_ = srv.Halt(syscall.SIGKILL) // its status is that of the signal
	// The test takes the lock after the old node, so that the new server has to wait for it.
	check(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	booted := make(chan error, 1)
	go func() { booted <- srv.Boot(ctx) }()
	eventually(t, "the new server waits for the node", func() bool {
		if len(booted) > 0 {
			t.Fatalf("the new server: %v\n%s", <-booted, srv.Complaints())
		}
		shown, err := os.ReadFile(filepath.Join(srv.Dir, "shown"))
		return err == nil && strings.Contains(string(shown), "saves its sessions: waiting for it")
	})
	check(t, lock.Close())
	check(t, <-booted)
	if got := s.run("ok", "x").result(t); got != "42" {
		t.Errorf("the session kept %s", got)
	}
	bin, err := Bin("sandgate")
	check(t, err)
	out, err := exec.CommandContext(ctx, bin, "serve", "--config", srv.Config).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a server already runs with run_dir") {
		t.Errorf("a second server: %v\n%s", err, out)
	}
}

// TestHibernateDiskFull checks that a session whose snapshot does not fit on the disk
// continues, and that no file of the attempt remains.
func TestHibernateDiskFull(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	s := open(t, srv)
	s.run("ok", "x = 42\nb = __import__('os').urandom(64 << 20)")
	sessions := filepath.Join(srv.Dir, "data", "node", "sessions")
	check(t, syscall.Mount("tmpfs", sessions, "tmpfs", 0, "size=32m"))
	defer func() { check(t, syscall.Unmount(sessions, syscall.MNT_DETACH)) }()
	for range 2 {
		if _, err := s.client.HibernateSession(ctx, s.id); err == nil ||
			!strings.Contains(err.Error(), "space") {
			t.Fatalf("the hibernation: %v", err)
		}
		if got := s.run("ok", "x").result(t); got != "42" {
			t.Errorf("after it: %s", got)
		}
		names, err := os.ReadDir(sessions)
		check(t, err)
		if len(names) > 0 {
			t.Errorf("the folder still has %v", names)
		}
	}
}

// TestHibernateFigures measures how long a session with pandas takes to hibernate and
// to resume. It asserts nothing.
func TestHibernateFigures(t *testing.T) {
	s := open(t, server)
	s.run("ok", "import pandas, numpy\nx = pandas.DataFrame({'a': range(100000)})")
	var slept, woke []time.Duration
	for range 7 {
		begin := time.Now()
		_, err := s.client.HibernateSession(s.ctx, s.id)
		check(t, err)
		if woke == nil {
			var size int64
			files, err := filepath.Glob(filepath.Join(server.Dir, "data", "node", "sessions", s.id,
				"snapshot", "*"))
			check(t, err)
			for _, f := range files {
				fi, err := os.Stat(f)
				check(t, err)
				size += fi.Size()
			}
			t.Logf("on disk: %d MiB", size>>20)
		}
		slept = append(slept, time.Since(begin).Round(time.Millisecond))
		begin = time.Now()
		if got := s.run("ok", "len(x)").result(t); got != "100000" {
			t.Fatalf("resumed: %s", got)
		}
		woke = append(woke, time.Since(begin).Round(time.Millisecond))
	}
	t.Logf("hibernating: %v", slept)
	t.Logf("resuming, to the first result: %v", woke)
}
