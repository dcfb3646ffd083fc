package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/redis"
)

// redisServer is a redis-server of a test's own.
type redisServer struct {
	address string
	dir     string
	cmd     *exec.Cmd
	log     bytes.Buffer
	n       int
}

// startRedis starts a server that keeps nothing on disk.
func startRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not installed: make test installs it from Debian, or apt-get install redis-server")
	}
	// No port: one that is free now may be somebody's before the server has it.
	dir := t.TempDir()
	s := &redisServer{address: filepath.Join(dir, "socket"), dir: dir}
	s.start(t, bin, args...)
	t.Cleanup(s.kill)
	return s
}

func (s *redisServer) start(t *testing.T, bin string, args ...string) {
	t.Helper()
	all := append([]string{"--port", "0", "--unixsocket", s.address, "--save", "", "--appendonly", "no", "--dir", s.dir}, args...)
	s.cmd = exec.Command(bin, all...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := s.client()
	defer func() { _ = c.Close() }()
	for ctx := within(t); c.Ping(ctx).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("redis-server did not start:\n%s", s.log.String())
		}
	}
}

func (s *redisServer) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Network: "unix", Addr: s.address, MaxRetries: -1, ReadTimeout: patience})
}

func (s *redisServer) kill() {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// restart ends the server and starts another in its place. Nothing was kept.
func (s *redisServer) restart(t *testing.T) {
	t.Helper()
	s.kill()
	s.start(t, s.cmd.Path)
}

// open returns a cluster of its own on the server.
func (s *redisServer) open(t *testing.T) redisCluster {
	t.Helper()
	s.n++
	return s.join(t, fmt.Sprint("c", s.n))
}

// patience is how long a step may take where the server is only slow.
const patience = 20 * time.Second

func (s *redisServer) join(t *testing.T, cluster string) redisCluster {
	t.Helper()
	return s.joinFor(t, cluster, patience)
}

// hasty returns a directory whose steps do not wait long for a server that
// stands still.
func (s *redisServer) hasty(t *testing.T, cluster string) redisCluster {
	t.Helper()
	return s.joinFor(t, cluster, 500*time.Millisecond)
}

func (s *redisServer) joinFor(t *testing.T, cluster string, timeout time.Duration) redisCluster {
	t.Helper()
	r, err := redis.Open(redis.Options{URL: "unix://" + s.address + "?db=0", Cluster: cluster, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return redisCluster{r.Directory(), r}
}

// redisCluster is a client with the directory of its cluster.
type redisCluster struct {
	redis.Directory
	*redis.Client
}

// TestRedisLosesAll: the server is started again without its data. Nodes keep
// their sessions with larger tokens, and nobody takes one before they could.
func TestRedisLosesAll(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	ctx := within(t)
	a, b := beatOf("a"), beatOf("b")
	ia, ib := register(t, r, a), register(t, r, b)
	before, err := r.Heartbeat(ctx, cluster.Heartbeat{Node: "a", Instance: a.Instance, Incarnation: ia, Lease: long})
	if err != nil {
		t.Fatal(err)
	}
	token := mustClaim(t, r, claimOf("a", ia, "s_1", cluster.ClaimNew, 0))
	s.restart(t)
	for {
		_, err = r.Heartbeat(ctx, cluster.Heartbeat{Node: "a", Instance: a.Instance, Incarnation: ia, Lease: long})
		if !fault.Is(err, fault.Unavailable) { // a connection of before
			break
		}
	}
	wantKind(t, err, fault.Restarting)
	_, err = r.Claim(ctx, claimOf("b", ib, "s_1", cluster.ClaimTakeOver, 0))
	wantKind(t, err, fault.Restarting)
	ib = register(t, r, b)
	take := claimOf("b", ib, "s_1", cluster.ClaimTakeOver, 0)
	take.Lease = long
	_, err = r.Claim(ctx, take)
	wantKind(t, err, fault.Unavailable)
	a.Floor = token
	after, err := r.Heartbeat(ctx, a)
	if err != nil || after.Epoch == before.Epoch || after.Incarnation <= token {
		t.Fatalf("%+v %v after %+v and token %d", after, err, before, token)
	}
	if kept := mustClaim(t, r, claimOf("a", after.Incarnation, "s_1", cluster.ClaimRenew, token)); kept <= token {
		t.Errorf("kept with token %d, before it was %d", kept, token)
	}
	_, err = r.Claim(ctx, take)
	wantKind(t, err, fault.Conflict)
}

// TestRedisFull: with its memory full the server renews leases and ends them,
// and new sessions are refused.
func TestRedisFull(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	ctx := within(t)
	a := register(t, r, beatOf("a"))
	token := mustClaim(t, r, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	c := s.client()
	defer func() { _ = c.Close() }()
	for _, set := range [][2]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", "1"}} {
		if err := c.ConfigSet(ctx, set[0], set[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.Claim(ctx, claimOf("a", a, "s_2", cluster.ClaimNew, 0))
	wantKind(t, err, fault.Unavailable)
	if !strings.Contains(err.Error(), "full") {
		t.Errorf("it does not say why: %v", err)
	}
	b := beatOf("a")
	b.Incarnation = a
	if _, err := r.Heartbeat(ctx, b); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	if _, err := r.Find(ctx, "s_1"); err != nil {
		t.Errorf("a look-up: %v", err)
	}
	if err := r.Forget(ctx, "s_1", token); err != nil {
		t.Errorf("an end: %v", err)
	}
	if _, err := r.Find(ctx, "s_2"); !fault.Is(err, fault.NotFound) {
		t.Errorf("what was refused left something: %v", err)
	}
}

// TestRedisPaused: while the server stands still each step ends in time, with a
// kind that asks to try again; afterwards all is as before.
func TestRedisPaused(t *testing.T) {
	s := startRedis(t)
	r, hasty := s.join(t, "c"), s.hasty(t, "c")
	ctx := within(t)
	a := register(t, r, beatOf("a"))
	mustClaim(t, r, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	steps := func(how string) (errs [2]error) {
		begin := time.Now()
		_, errs[0] = hasty.Claim(ctx, claimOf("a", a, cluster.SessionID("s_"+how), cluster.ClaimNew, 0))
		_, errs[1] = hasty.Find(ctx, "s_1")
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: two steps took %s", how, took)
		}
		return errs
	}
	refused := func(errs [2]error) {
		t.Helper()
		for _, err := range errs {
			wantKind(t, err, fault.Unavailable)
		}
	}
	again := func() {
		t.Helper()
		for ctx.Err() == nil {
			if o, err := r.Find(ctx, "s_1"); err == nil {
				if o.Node != "a" || !o.Live {
					t.Errorf("afterwards: %+v", o)
				}
				return
			}
		}
		t.Fatal("it never answered again")
	}
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	refused(steps("stopped"))
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	again()
	c := s.client()
	defer func() { _ = c.Close() }()
	// A pause ends by the server's clock. One that a busy machine has slept
	// through says nothing.
	const pause = 3 * time.Second
	for n := 0; ; n++ {
		begin := time.Now()
		if err := c.Do(ctx, "client", "pause", pause.Milliseconds(), "all").Err(); err != nil {
			t.Fatal(err)
		}
		errs := steps(fmt.Sprint("paused", n))
		told := time.Since(begin) < pause
		again()
		if told {
			refused(errs)
			return
		}
	}
}

// TestRedisKeysEnd: nothing is kept without an end but the two keys that are
// named, whatever nodes and sessions do.
func TestRedisKeysEnd(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	ctx := within(t)
	a := register(t, r, beatOf("a"))
	for n := range 5 {
		id := cluster.SessionID(fmt.Sprint("s_", n))
		token := mustClaim(t, r, claimOf("a", a, id, cluster.ClaimNew, 0))
		if n == 1 {
			if err := r.Release(ctx, id, token, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := s.client()
	defer func() { _ = c.Close() }()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil || len(keys) != 8 {
		t.Fatalf("keys %v %v", keys, err)
	}
	for _, k := range keys {
		ttl, err := c.PTTL(ctx, k).Result()
		if err != nil {
			t.Fatal(err)
		}
		if endless := strings.HasSuffix(k, ":directory") || strings.HasSuffix(k, ":nodes"); (ttl <= 0) != endless {
			t.Errorf("%s has %s to live", k, ttl)
		}
	}
}

// TestRedisSettings: what cannot be an address is refused by name.
func TestRedisSettings(t *testing.T) {
	for _, o := range []redis.Options{{URL: "http://x"}, {URL: ""}, {URL: "redis://:secret@127.0.0.1:1/0"}, {URL: "redis://127.0.0.1:1/0", Cluster: "a:b"}} {
		r, err := redis.Open(o)
		if err == nil {
			_ = r.Close()
		}
		wantKind(t, err, fault.InvalidArgument)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
}

// TestEmbeddedDurable: owners and tokens outlive the process, leases do not.
func TestEmbeddedDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory")
	e := openEmbedded(t, path)
	a := register(t, e, beatOf("a"))
	token := mustClaim(t, e, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	high := register(t, e, cluster.Heartbeat{Node: "b", Instance: "b", Lease: long, Floor: 1 << 60})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openEmbedded(t, path)
	if o, err := e.Find(context.Background(), "s_1"); err != nil || o.Node != "a" || o.Token != token || o.Live {
		t.Fatalf("afterwards: %+v %v", o, err)
	}
	again := register(t, e, beatOf("a"))
	if again <= high {
		t.Errorf("incarnation %d after %d", again, high)
	}
	mustClaim(t, e, claimOf("a", again, "s_1", cluster.ClaimRenew, token))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info, err)
	}
}
