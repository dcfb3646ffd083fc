package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// cluster is a Cluster in a test.
type cluster struct {
	*Cluster
	t *testing.T
}

// clusterLease is short, so that a test can see one end.
const clusterLease = 3 * time.Second

func newCluster(t *testing.T, servers int) *cluster {
	t.Helper()
	c := emptyCluster(t)
	c.add(servers, "")
	return c
}

// emptyCluster creates a cluster without servers.
func emptyCluster(t *testing.T) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	all, err := NewCluster(ctx)
	check(t, err)
	c := &cluster{all, t}
	t.Cleanup(func() { check(t, c.Stop()) })
	return c
}

// add starts servers, with more settings.
func (c *cluster) add(servers int, settings string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for range servers {
		_, err := c.Start(ctx, clusterLease, "pool: {size: 1, spare: 0}\nlog: {level: debug}\n"+
			"gateway: {self_check: 0}\n"+settings)
		check(c.t, err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	a, err := testenv.FreeAddress()
	check(t, err)
	return a
}

func (c *cluster) startRedis() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	check(c.t, c.StartRedis(ctx))
}

// eventually waits until a condition holds, and fails the test after three minutes. It
// polls, because the conditions are states of other processes.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(3 * time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it did not happen within three minutes: %s", what)
		}
	}
}

// on opens the session at another server's gateway.
func (s *session) on(srv *Server) *session {
	s.t.Helper()
	c, err := wire.New(srv.URL, srv.Token, wire.Options{})
	check(s.t, err)
	conn, err := c.Connect(s.ctx)
	check(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	k, err := conn.Kernel(s.ctx, s.id, "k1")
	check(s.t, err)
	return &session{s.t, s.ctx, c, conn, k, s.id}
}

// owner is the index of the server whose node has the session, by the log.
func (c *cluster) owner(id string) int {
	owner := -1
	var most uint64
	for _, o := range c.history().claims() {
		if o.session == id && o.what == "owned" && o.token > most {
			most = o.token
			fmt.Sscanf(o.node, "n%d", &owner)
		}
	}
	return owner
}

// openOn creates a session through the server srv that the node with an index owns.
func (c *cluster) openOn(t *testing.T, srv *Server, node int, r protocol.SessionCreate) *session {
	t.Helper()
	for range 8 {
		s := openAs(t, srv, r)
		if c.owner(s.id) == node {
			return s
		}
		check(t, s.client.DeleteSession(s.ctx, s.id))
	}
	t.Fatalf("no session is placed on node %d", node)
	return nil
}

// history returns the history that the servers have logged.
func (c *cluster) history() *history {
	h := &history{nodes: map[string]string{}}
	for i, s := range c.Servers {
		h.nodes[fmt.Sprint("n", i)] = s.Dir
	}
	return h
}

// TestCluster runs two nodes and two gateways with a real Redis through the actions
// of an operator and several failures.
func TestCluster(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	c := newCluster(t, 2)
	a, b := c.Servers[0], c.Servers[1]

	// Each gateway serves every session. Both nodes get some sessions.
	one, two := open(t, a), open(t, b)
	one.run("ok", "x = 41")
	for try := 0; c.owner(one.id) == c.owner(two.id); try++ {
		if try == 6 {
			t.Fatal("all sessions are on one node")
		}
		two = open(t, b)
	}
	two.run("ok", "x = 1")
	other := one.on(b)
	if got := other.run("ok", "x + 1").result(t); got != "42" {
		t.Fatalf("over the other gateway: %s", got)
	}
	t.Run("files", func(t *testing.T) {
		for _, srv := range c.Servers {
			cl, err := wire.New(srv.URL, srv.Token, wire.Options{})
			check(t, err)
			_, err = cl.Upload(one.ctx, one.id, "f", 0,
				bytes.NewReader(bytes.Repeat([]byte("0123456789abcdef"), 1<<16)))
			check(t, err)
		}
		if got := one.run("ok", "len(open('f').read())").result(t); got != "1048576" {
			t.Errorf("the file has %s bytes", got)
		}
	})
	t.Run("list", func(t *testing.T) {
		for _, srv := range c.Servers {
			cl, err := wire.New(srv.URL, srv.Token, wire.Options{})
			check(t, err)
			all, err := cl.Sessions(one.ctx)
			check(t, err)
			text := fmt.Sprint(all)
			contains(t, text, one.id, two.id)
		}
		// For one lease after Redis has started, an unknown session may be one that it has lost.
		eventually(t, "an unknown session is not found", func() bool {
			code, err := b.Get(one.ctx, "/v1/sessions/s_aaaaaaaaaaaaaaaaaaaaaaaaaa", nil)
			check(t, err)
			if code != 404 && code != 503 {
				t.Fatalf("for an unknown session: %d", code)
			}
			return code == 404
		})
	})
	t.Run("redis lost", func(t *testing.T) { c.redisLost(one, other) })
	t.Run("redis stopped", func(t *testing.T) { c.redisStopped(one) })
	t.Run("drain", func(t *testing.T) { c.drain(t) })
	t.Run("node stopped", func(t *testing.T) { c.nodeStopped(t) })
	t.Run("node killed", func(t *testing.T) { c.nodeKilled(t) })
	c.history().mustHold(t)
}

// redisLost starts Redis again without its data, while cells run.
func (c *cluster) redisLost(one, other *session) {
	cell := one.begin(
		"import time\nfor i in range(100):\n    print(i, flush=True)\n    time.sleep(0.01)")
	c.StopRedis()
	if _, err := one.client.CreateSession(one.ctx, protocol.SessionCreate{}); !fault.Is(err,
		fault.Unavailable) {
		one.t.Errorf("a new session without a directory: %v", err)
	}
	c.startRedis()
	if out := one.collect(cell, nil); out.reply.Status != "ok" ||
		strings.Count(out.stdout, "\n") != 100 {
		one.t.Errorf("the cell: %+v", out)
	}
	if got := other.run("ok", "x").result(one.t); got != "41" {
		one.t.Errorf("afterwards: %s", got)
	}
	c.awaitSessions(one)
	eventually(one.t, "the session in the directory", func() bool {
		status, err := c.Servers[1].Get(one.ctx, "/v1/sessions/"+one.id, nil)
		return err == nil && status == http.StatusOK
	})
}

// redisStopped stops Redis for longer than a lease: nodes fence themselves, and
// nothing is lost when Redis continues.
func (c *cluster) redisStopped(one *session) {
	c.Redis.Process.Signal(syscall.SIGSTOP)
	if got := one.run("ok", "x").result(one.t); got != "41" {
		one.t.Errorf("within the lease: %s", got)
	}
	eventually(one.t, "the fence", func() bool {
		_, err := one.kernel.Execute(one.ctx, "fenced = 1", wire.ExecuteOptions{})
		return fault.Is(err, fault.Unavailable)
	})
	c.Redis.Process.Signal(syscall.SIGCONT)
	eventually(one.t, "the end of the fence", func() bool {
		cell, err := one.kernel.Execute(one.ctx, "1", wire.ExecuteOptions{})
		if err != nil {
			return false
		}
		return one.collect(cell, nil).reply.Status == "ok"
	})
	c.awaitSessions(one)
}

// awaitSessions waits until each gateway creates sessions again: each notices by itself that Redis
// answers.
func (c *cluster) awaitSessions(one *session) {
	for _, srv := range c.Servers {
		cl, err := wire.New(srv.URL, srv.Token, wire.Options{})
		check(one.t, err)
		eventually(one.t, "new sessions", func() bool {
			s, err := cl.CreateSession(one.ctx, protocol.SessionCreate{})
			if err == nil {
				cl.DeleteSession(one.ctx, s.ID)
			}
			return err == nil
		})
	}
}

// drain moves the sessions of a node away under a running cell and an open terminal.
func (c *cluster) drain(t *testing.T) {
	var moved []*session
	for _, s := range c.Servers {
		moved = append(moved, open(t, s), open(t, s))
	}
	from := c.owner(moved[0].id)
	srv, stays := c.Servers[from], c.Servers[1-from]
	s := moved[0].on(stays)
	for i, x := range moved {
		x.run("ok", fmt.Sprintf("y = %d\nopen('kept', 'w').write('%d')", i, i))
	}
	v := s.terminal(protocol.ChannelOpen{})
	v.do("held=in-the-shell; echo rea''dy", "ready")
	notebook := followJupyter(t, srv, s.id)
	cell := s.begin(
		"import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.01)")
	drained := false
	out := s.collect(cell, func(r frame.Record) {
		if r.Kind != frame.KindStdout || drained {
			return
		}
		drained = true
		begin := time.Now()
		said, err := srv.Drain()
		check(t, err)
		t.Logf("%s in %s", strings.TrimSpace(said), time.Since(begin))
	})
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintln(&want, i)
	}
	if out.stdout != want.String() || out.reply.Status != "ok" {
		t.Errorf("got %d bytes, want %d: %+v", len(out.stdout), want.Len(), out.reply)
	}
	if got := notebook.wait(); got != want.String() {
		t.Errorf("a client of Jupyter at the other gateway got %d bytes, want %d", len(got), want.Len())
	}
	if notebook.connections < 2 {
		t.Error("the client of Jupyter never connected again")
	}
	if n := s.conn.Reconnects(); n != 0 {
		t.Errorf("the client of the other gateway has reconnected %d times", n)
	}
	v.do("echo $held", "\rin-the-shell")
	for i, x := range moved {
		if got := x.run("ok", "y, open('kept').read()").result(t); got != fmt.Sprintf("(%d, '%d')",
			i, i) {
			t.Errorf("session %d kept %s", i, got)
		}
		if c.owner(x.id) == from {
			t.Errorf("session %d is still on the drained node", i)
		}
	}
	// The node gets no new session, and the blob store is empty again.
	if made := open(t, srv); c.owner(made.id) == from {
		t.Error("a drained node got a session")
	}
	eventually(t, "an empty blob store", func() bool { // some clients have not reconnected yet
		left := 0
		filepath.Walk(c.Dir+"/blobs", func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() && info.Name() != "cluster" &&
				!strings.Contains(path, "/records/") {
				left++
			}
			return nil
		})
		return left == 0
	})
	// When it is started again, it gets sessions again.
	check(t, srv.Halt(syscall.SIGTERM))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	check(t, srv.Boot(ctx))
}

// nodeStopped stops a node for longer than its lease. It continues fenced, and
// claims its sessions with larger tokens.
func (c *cluster) nodeStopped(t *testing.T) {
	s := open(t, c.Servers[0])
	s.run("ok", "n = 0")
	at := c.owner(s.id)
	srv := c.Servers[at]
	before := strings.Count(srv.Log(), `claiming all sessions again`)
	srv.Signal(syscall.SIGSTOP)
	time.Sleep(clusterLease + clusterLease/2) // this time is tested; no event ends it
	srv.Signal(syscall.SIGCONT)
	eventually(t, "the claim of its sessions", func() bool {
		return strings.Count(srv.Log(), `claiming all sessions again`) > before
	})
	eventually(t, "its sessions", func() bool {
		cell, err := s.kernel.Execute(s.ctx, "n += 1", wire.ExecuteOptions{Key: "once"})
		return err == nil && s.collect(cell, nil).reply.Status == "ok"
	})
	if got := s.run("ok", "n").result(t); got != "1" {
		t.Errorf("a cell ran %s times under one key", got)
	}
}

// nodeKilled kills a node. Its sessions are lost or moved. The sessions of the other
// node continue, and new sessions are placed there.
func (c *cluster) nodeKilled(t *testing.T) {
	kept, doomed := open(t, c.Servers[0]), open(t, c.Servers[1])
	for try := 0; c.owner(kept.id) == c.owner(doomed.id); try++ {
		if try == 24 {
			t.Fatal("all sessions are on one node")
		}
		doomed = open(t, c.Servers[1])
	}
	kept.run("ok", "z = 7")
	at := c.owner(doomed.id)
	c.Servers[at].Signal(syscall.SIGKILL)
	if got := kept.on(c.Servers[at]).run("ok", "z").result(t); got != "7" {
		t.Errorf("the other node's session: %s", got)
	}
	begin := time.Now()
	eventually(t, "new sessions", func() bool {
		s, err := kept.client.CreateSession(kept.ctx, protocol.SessionCreate{})
		if err == nil {
			kept.client.DeleteSession(kept.ctx, s.ID)
		}
		return err == nil
	})
	t.Logf("new sessions after %s", time.Since(begin))
	// The supervisor has started the node again.
	check(t, killed(kept.ctx, kept.client, doomed.id))
}
