package cluster_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sandgate/sandgate/internal/cluster/redis"
	"github.com/sandgate/sandgate/internal/testenv"
)

// redisServer is a redis-server of one test.
type redisServer struct {
	address string
	dir     string
	cmd     *exec.Cmd
	log     bytes.Buffer
	n       int
}

// startRedis starts a server that stores nothing on disk.
func startRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(
			"redis-server is not installed: make test installs it from Debian, or apt-get install redis-server")
	}
	// No port: a port that is free now may be in use before the server opens it.
	dir := t.TempDir()
	s := &redisServer{address: filepath.Join(dir, "socket"), dir: dir}
	s.start(t, bin, args...)
	t.Cleanup(s.kill)
	return s
}

func (s *redisServer) start(t *testing.T, bin string, args ...string) {
	t.Helper()
	all := append([]string{
		"--port", "0", "--unixsocket", s.address, "--save", "", "--appendonly", "no", "--dir",
		s.dir,
	}, args...)
	s.cmd = exec.Command(bin, all...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := s.client()
	defer func() { _ = c.Close() }()
	ctx := within(t)
	testenv.Eventually(t, "redis-server answers", func() bool { return c.Ping(ctx).Err() == nil })
}

func (s *redisServer) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Network: "unix", Addr: s.address, MaxRetries: -1, ReadTimeout: patience,
	})
}

func (s *redisServer) kill() {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// restart ends the server and starts it again without data.
func (s *redisServer) restart(t *testing.T) {
	t.Helper()
	s.kill()
	s.start(t, s.cmd.Path)
}

// save makes the server write its data to its folder.
func (s *redisServer) save(t *testing.T) {
	t.Helper()
	c := s.client()
	defer func() { _ = c.Close() }()
	if err := c.Save(within(t)).Err(); err != nil {
		t.Fatal(err)
	}
}

// open returns a cluster of its own on the server, which has served it for an hour.
func (s *redisServer) open(t *testing.T) redisCluster {
	t.Helper()
	s.n++
	name := fmt.Sprint("c", s.n)
	s.age(t, name)
	return s.join(t, name)
}

// age makes the server have served a cluster for an hour.
func (s *redisServer) age(t *testing.T, cluster string) {
	t.Helper()
	c := s.client()
	defer func() { _ = c.Close() }()
	ctx := within(t)
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, run, _ := strings.Cut(info, "run_id:")
	run, _, _ = strings.Cut(run, "\r\n")
	if err := c.HSet(ctx, "sandgate:{"+cluster+"}:directory", "run", run, "born",
		time.Now().Add(-time.Hour).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
}

// patience is how long a step may take when the server is only slow.
const patience = 2 * time.Minute

func (s *redisServer) join(t *testing.T, cluster string) redisCluster {
	t.Helper()
	return s.joinFor(t, cluster, patience)
}

// joinImpatiently returns a directory whose steps do not wait long for a stopped
// server.
func (s *redisServer) joinImpatiently(t *testing.T, cluster string) redisCluster {
	t.Helper()
	return s.joinFor(t, cluster, 500*time.Millisecond)
}

func (s *redisServer) joinFor(t *testing.T, cluster string, timeout time.Duration) redisCluster {
	t.Helper()
	r, err := redis.Open(redis.Options{
		URL: "unix://" + s.address + "?db=0", Cluster: cluster, Timeout: timeout,
	})
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
