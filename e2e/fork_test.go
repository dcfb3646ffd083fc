package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// draws are cells that print values that must differ between copies, as name=value.
func draws() map[string]string {
	return map[string]string{
		"python": `
import os, random, secrets, socket, tempfile, uuid
import numpy as np
print(f"random={random.random()}\nnumpy={np.random.rand()}\nuuid4={uuid.uuid4()}\nuuid1={uuid.uuid1()}\nurandom={os.urandom(8).hex()}\nsecrets={secrets.token_hex()}")
print(f"host={socket.gethostname()}\nmktemp={tempfile.mktemp()}\nmachine={open('/etc/machine-id').read().strip()}\nboot={open('/proc/sys/kernel/random/boot_id').read().strip()}")`,
		"javascript": `{
const c = require('node:crypto');
console.log('random=' + Math.random() + '\nuuid=' + c.randomUUID() + '\nint=' + c.randomInt(2 ** 40) + '\nbytes=' + c.randomBytes(8).toString('hex') + '\nhost=' + require('node:os').hostname());
}`,
		"go": `import ("crypto/rand"; "fmt"; mrand "math/rand"; rand2 "math/rand/v2"; "os")
func draw() {
	dir, _ := os.MkdirTemp("", "x")
	host, _ := os.Hostname()
	fmt.Printf("rand=%d\nrand2=%d\ncrypto=%s\nmkdirtemp=%s\nhost=%s\n", mrand.Int63(), rand2.Int64(), rand.Text(), dir, host)
}
draw()`,
		"java": `import java.util.concurrent.ThreadLocalRandom;
System.out.println("math=" + Math.random() + "\nlocal=" + ThreadLocalRandom.current().nextLong() + "\nrandom=" + new Random().nextLong() + "\nuuid=" + UUID.randomUUID() + "\ntemp=" + Files.createTempFile("x", ""));`,
		"php": `echo 'mt_rand=', mt_rand(), mt_rand(), "\nrand=", rand(), rand(), "\nrandom_int=", random_int(0, PHP_INT_MAX), "\ntempnam=", tempnam('/tmp', 'x'), "\nhost=", gethostname(), "\n";`,
		"bash": `echo "random=$RANDOM$RANDOM$RANDOM
srandom=$SRANDOM
mktemp=$(mktemp -u)
host=$(hostname)
machine=$(cat /etc/machine-id)"`,
		"sql": `SELECT 'random=' || random() AS a UNION ALL SELECT 'blob=' || hex(randomblob(8));`,
	}
}

// TestForksDiffer forks a session with a kernel of every language twenty
// times, after each kernel has drawn random numbers, and checks that no value of
// one copy can be guessed from another.
func TestForksDiffer(t *testing.T) {
	t.Parallel()
	const rounds, each = 2, 3
	ctx := deadline(t)
	s := open(t, server)
	kernels := map[string]string{"python": s.kernel.Channel().ID}
	names := slices.Sorted(maps.Keys(draws()))
	for _, language := range names {
		if language != "python" {
			c, err := s.conn.OpenChannel(ctx, protocol.ChannelOpen{
				Session: s.id, Kind: "kernel",
				Language: language,
			})
			check(t, err)
			kernels[language] = c.ID
		}
	}
	seen := map[string]string{} // by value: the copy that drew it
	draw := func(session, who string) {
		t.Helper()
		for _, language := range names {
			k, err := s.conn.Kernel(ctx, session, kernels[language])
			check(t, err)
			own := *s
			own.kernel = k
			out := own.run("ok", draws()[language])
			said := out.stdout
			for _, b := range out.messages[message.ExecuteResultType] {
				said += text(t, b, "text/plain")
			}
			n := 0
			for line := range strings.Lines(said) {
				name, value, ok := strings.Cut(strings.Trim(line, " |\n"), "=")
				if !ok {
					continue
				}
				n++
				if name == "host" || name == "machine" || name == "boot" {
					language = "" // one value for all languages
				}
				if other, known := seen[value]; known && other != who+"/"+name {
					t.Errorf("%s of %s: %s has the value %s too", name, who, value, other)
				}
				if value == "" || language != "" && seen[value] != "" {
					t.Errorf("%s of %s is %q a second time", name, who, value)
				}
				seen[value] = who + "/" + name
			}
			if n < 2 {
				t.Errorf("%s printed %q", who, said)
			}
		}
	}
	draw(s.id, "the original")
	for round := range rounds {
		begin := time.Now()
		f, err := s.client.ForkSession(ctx, protocol.SessionFork{Session: s.id, Count: each})
		check(t, err)
		t.Logf("forking %d times: %s, in which the original was paused for %.0f ms", each,
			time.Since(begin), f.PauseMS)
		for i, v := range f.Sessions {
			draw(v.ID, fmt.Sprintf("copy %d", round*each+i))
		}
		for _, v := range f.Sessions {
			check(t, s.client.DeleteSession(ctx, v.ID))
		}
	}
}

// ordered runs the command line and returns what it prints.
func ordered(t *testing.T, args ...string) string {
	t.Helper()
	cmd := sandgate(t, deadline(t), args...)
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		t.Fatalf("sandgate %s: %v\n%s", strings.Join(args, " "), err, bad.String())
	}
	return strings.TrimSpace(out.String())
}

// at returns the Python kernel of another session, over s's connection.
func (s *session) at(id string) *session {
	s.t.Helper()
	k, err := s.conn.Kernel(s.ctx, id, "k1")
	check(s.t, err)
	return &session{s.t, s.ctx, s.client, s.conn, k, id}
}

// TestForkCommands uses the commands as a person does: fork, snapshot, start, list, remove.
func TestForkCommands(t *testing.T) {
	s := open(t, server)
	s.run("ok", "x = 41")
	copies := strings.Fields(ordered(t, "fork", "-n", "2", s.id))
	if len(copies) != 2 {
		t.Fatalf("copies: %v", copies)
	}
	for _, id := range copies {
		if got := s.at(id).run("ok", "x += 1; x").result(t); got != "42" {
			t.Errorf("a copy says %s", got)
		}
	}
	id := ordered(t, "snapshot", "create", "--name", "my clean one", "--expires", "1h", s.id)
	contains(t, ordered(t, "snapshot", "ls"), id, "my clean one", "python", "in ", s.id)
	begun := ordered(t, "sessions", "create", "--snapshot", "my clean one", "--durable")
	if got := s.at(begun).run("ok", "x += 2; x").result(t); got != "43" {
		t.Errorf("started, it says %s", got)
	}
	also := ordered(t, "snapshot", "start", "my clean one")
	if v, err := s.client.Session(s.ctx, begun); err != nil || !v.Durable || v.Origin != id {
		t.Errorf("the session that was started: %+v, %v", v, err)
	}
	found, err := s.client.Snapshot(s.ctx, "my clean one")
	check(t, err)
	if found.ID != id || found.ExpiresMS == 0 {
		t.Errorf("found: %+v", found)
	}
	ordered(t, "snapshot", "rm", "my clean one")
	if got := ordered(t, "snapshot", "ls", "-q"); got != "" {
		t.Errorf("the rest: %s", got)
	}
	if got := s.run("ok", "x").result(t); got != "41" {
		t.Errorf("the original says %s", got)
	}
	ordered(t, append([]string{"rm", begun, also}, copies...)...)
}

// killed kills all processes of the server at once and starts it again.
func (s *Server) killed(ctx context.Context, t *testing.T) {
	t.Helper()
	node, err := s.Child("node")
	check(t, err)
	gateway, err := s.Child("gateway")
	check(t, err)
	var ends []unix.PollFd
	for _, pid := range []int{s.PID(), node, gateway} {
		fd, err := unix.PidfdOpen(pid, 0)
		check(t, err)
		defer unix.Close(fd)
		ends = append(ends, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		check(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	// Until all have ended, one of them may still have the address.
	for i := range ends {
		for {
			if n, err := unix.Poll(ends[i:i+1], 30_000); err == nil && n == 1 {
				break
			} else if err != unix.EINTR {
				t.Fatalf("a killed process does not end: %d, %v", n, err)
			}
		}
	}
	s.Halt(syscall.SIGKILL)
	check(t, s.Boot(ctx))
}

// TestKilledServer kills all processes of the server at different moments of a
// snapshot, and while a durable session works. The snapshots that are listed
// afterwards are complete, and nothing else remains. The session is back in the
// state in which it last became idle. A connected client learns what is lost.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := Start(
		ctx, "pool: {size: 1, languages: [python]}\nsessions: {durable: true, durable_every: 1s}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	s := open(t, srv)
	s.run("ok", "import pandas\nx = 42\nopen('kept', 'w').write('in a file')")
	v := s.terminal(protocol.ChannelOpen{})
	v.do("held=in-the-shell; echo rea''dy", "ready")
	kept := func(since int64) (at int64) {
		t.Helper()
		eventually(t, "a copy of the session", func() bool {
			found, err := s.client.Session(ctx, s.id)
			check(t, err)
			at = found.KeptMS
			return at > since
		})
		return at
	}
	kept(time.Now().UnixMilli())
	before, err := s.client.Session(ctx, s.id)
	check(t, err)
	s.run("ok", "x = 0 # is lost")
	cell := s.begin("print('on', flush=True)\nwhile True: pass")
	dead := false
	out := s.collect(cell, func(r frame.Record) {
		if r.Kind == frame.KindStdout && !dead {
			dead = true
			srv.killed(ctx, t)
		}
	})
	if out.reply.EName != "SandboxLost" {
		t.Errorf("the cell that ran: %+v", out.reply)
	}
	after, err := s.client.Session(ctx, s.id)
	check(t, err)
	if after.State != "hibernated" || after.RecoveredMS != before.KeptMS {
		t.Errorf("the session is back as %+v, copied at %d", after, before.KeptMS)
	}
	if got := s.run("ok", "x, open('kept').read()").result(t); got != "(42, 'in a file')" {
		t.Errorf("its variable is %s", got)
	}
	v.do("echo $held", "\rin-the-shell")

	// The kills are at different moments of a snapshot.
	folder := filepath.Join(srv.Dir, "data", "node", "kept")
	whole := 0
	const kills = 5
	begun := time.Now()
	n, err := s.client.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.id})
	check(t, err)
	takes := time.Since(begun)
	check(t, s.client.DeleteSnapshot(ctx, n.ID))
	for i := range kills {
		taken := make(chan error, 1)
		begun := time.Now()
		go func() {
			_, err := s.client.TakeSnapshot(ctx,
				protocol.SnapshotCreate{Session: s.id, Name: fmt.Sprint("n", i)})
			taken <- err
		}()
		select {
		case <-taken:
		case <-time.After(takes * time.Duration(2*i+1) / kills):
		}
		t.Logf("killed %s after the start", time.Since(begun))
		srv.killed(ctx, t)
		list, err := s.client.Snapshots(ctx)
		check(t, err)
		whole = len(list)
		names, err := os.ReadDir(folder)
		check(t, err)
		if len(names) != whole {
			t.Errorf("%d snapshots are listed, the folder has %v", whole, names)
		}
		if got := s.run("ok", "x").result(t); got != "42" {
			t.Errorf("after kill %d the variable is %s", i, got)
		}
		kept(0)
	}
	t.Logf("%d of %d snapshots were complete", whole, kills)
	list, err := s.client.Snapshots(ctx)
	check(t, err)
	for _, n := range list {
		begun, err := s.client.CreateSession(ctx, protocol.SessionCreate{Snapshot: n.ID})
		check(t, err)
		if got := s.at(begun.ID).run("ok", "x").result(t); got != "42" {
			t.Errorf("a session of %s has the variable %s", n.Name, got)
		}
		check(t, s.client.DeleteSnapshot(ctx, n.ID))
		check(t, s.client.DeleteSession(ctx, begun.ID))
	}
	check(t, s.conn.Close()) // a log is removed with its last reader
	check(t, s.client.DeleteSession(ctx, s.id))
	for _, name := range []string{"kept", "forks", "durable", "sessions", "logs"} {
		eventually(t, "the folder "+name+" is empty", func() bool {
			names, err := os.ReadDir(filepath.Join(srv.Dir, "data", "node", name))
			check(t, err)
			return len(names) == 0
		})
	}
}
