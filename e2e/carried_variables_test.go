package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// kernelOf opens a kernel of a language in the session.
func (s *session) kernelOf(language string) *session {
	s.t.Helper()
	ch, err := s.conn.OpenChannel(s.ctx,
		protocol.ChannelOpen{Session: s.id, Kind: "kernel", Language: language})
	check(s.t, err)
	return s.with(ch.ID)
}

// with returns the session with another one of its kernels.
func (s *session) with(channel string) *session {
	s.t.Helper()
	k, err := s.conn.Kernel(s.ctx, s.id, channel)
	check(s.t, err)
	return &session{s.t, s.ctx, s.client, s.conn, k, s.id}
}

// eventsTo returns the events in the log of the session's kernel up to the one that has a name.
func (s *session) eventsTo(name string) string {
	s.t.Helper()
	v, err := s.conn.Attach(s.ctx, s.id, s.kernel.Channel().ID, wire.AttachOptions{})
	check(s.t, err)
	defer v.Close()
	var all strings.Builder
	for {
		r, err := v.Next(s.ctx)
		check(s.t, err)
		if r.Kind != frame.KindEvent {
			continue
		}
		all.Write(r.Payload)
		if strings.Contains(string(r.Payload), `"event":"`+name+`"`) {
			return all.String()
		}
	}
}

// TestUpgradeCarriesVariables upgrades a server, and ends the window of the earlier edition. The kernels
// of a session have their variables afterwards, and the logs name those that cannot be kept.
func TestUpgradeCarriesVariables(t *testing.T) {
	t.Parallel() // most of the time it waits for the next look at the editions
	ctx, srv, now := startEarlier(t)
	s := openAs(t, srv, protocol.SessionCreate{})
	s.run("ok", `import socket, pandas as pd
class Point:
    def __init__(self, x): self.x = x
def area(n): return width * n
df = pd.DataFrame({"a": [1, 2], "p": ["x", "y"]}); width = 6
points = [Point(1), Point(2)]; first = points[0]; add = lambda n: n + width
connection = socket.socket(); numbers = (i for i in range(3))`)
	shell, query := s.kernelOf("bash"), s.kernelOf("sql")
	shell.run("ok", `x=41; export y='in the shell'; greet() { echo "hello $1"; }; mkdir -p work; cd work
declare -A map=([a]=1); shopt -s nullglob; sleep 1000 &`)
	query.run("ok", "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x'), (2, 'y');\n"+
		"CREATE TEMP TABLE passing(n);\n.parameter set :who ann")
	script, page := s.kernelOf("javascript"), s.kernelOf("php")
	script.run("ok", "const list = [1], both = { list }; let map = new Map([[1, 2n]]); const f = () => 1")
	page.run("ok", "$list = [1, 'two']; $when = new DateTime('2020-01-02'); $f = fn() => 1;")
	other := s.kernelOf("go")
	other.run("ok", "x := 1")

	s.carried(ctx, t, srv, now)
	s = s.on(srv)
	if got := s.run("ok", `(list(df.a), area(7), first is points[0], type(first) is Point, add(1),
    'connection' in globals(), 'numbers' in globals())`).result(t); got !=
		"([1, 2], 42, True, True, 7, False, False)" {
		t.Errorf("Python: %s", got)
	}
	contains(t, s.eventsTo("kernel_restarted"),
		`"lost":["connection","numbers"],"lost_count":2`, `"event":"upgraded"`,
		`variables that cannot be kept (connection, numbers) and running programs are lost"`,
		`"event":"variables_restored"`, "the variables from before the upgrade are restored: ")
	shell = s.with(shell.kernel.Channel().ID)
	out := shell.run("ok", `echo "$x ${map[a]} $PWD"; greet you; bash -c 'echo $y'; shopt -q nullglob`)
	if out.stdout != "41 1 /home/user/work\nhello you\nin the shell\n" {
		t.Errorf("Bash: %q", out.stdout)
	}
	contains(t, shell.eventsTo("kernel_restarted"), `"lost":["job sleep"],"lost_count":1`)
	query = s.with(query.kernel.Channel().ID)
	if got := query.run("ok", "SELECT sum(a) || b || :who FROM t").result(t); !strings.Contains(got,
		"3xann") {
		t.Errorf("SQL: %s", got)
	}
	contains(t, query.eventsTo("kernel_restarted"), `"kept":["t",":who"],"kept_count":2`,
		`"lost":["passing"],"lost_count":1`)
	script = s.with(script.kernel.Channel().ID)
	if got := script.run("ok", "[both.list === list, map.get(1), typeof f].join()").result(t); got !=
		"'true,2,undefined'" {
		t.Errorf("JavaScript: %s", got)
	}
	contains(t, script.eventsTo("kernel_restarted"), `"lost":["f"],"lost_count":1`)
	page = s.with(page.kernel.Channel().ID)
	if out := page.run("ok", "echo $list[1], $when->format('Y'), isset($f) ? 'f' : '-';"); out.stdout !=
		"two2020-" {
		t.Errorf("PHP: %q", out.stdout)
	}
	contains(t, page.eventsTo("kernel_restarted"), `"lost":["f"],"lost_count":1`)
	other = s.with(other.kernel.Channel().ID)
	if out := other.run("error", "x"); out.reply.EName == "" {
		t.Errorf("Go: %+v", out)
	}
	contains(t, other.eventsTo("kernel_restarted"),
		"variables and running programs are lost; this kernel cannot keep them")
	if got := s.run("ok", "import os; os.listdir('/home/user/.sandgate/kept')").result(t); got != "[]" {
		t.Errorf("files that stay: %s", got)
	}
	// The variables are restored once.
	check(t, s.kernel.Restart(ctx))
	s.run("error", "df")
}

// carried upgrades the server, and waits until the session is carried over.
func (s *session) carried(ctx context.Context, t *testing.T, srv *Server, now release) {
	t.Helper()
	check(t, s.conn.Close()) // a client that attaches again would resume the session
	about, err := s.client.Session(ctx, s.id)
	check(t, err)
	_, image, _ := strings.Cut(about.Edition, "-")
	srv.installed(ctx, t, now, "1s")
	eventually(t, "the earlier edition is removed", func() bool {
		_, err := os.Stat(srv.Dir + "/data/editions/images/" + image)
		return os.IsNotExist(err)
	})
}
