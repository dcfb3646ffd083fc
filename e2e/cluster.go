package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
)

// Cluster is a cluster of servers on this machine: a node and a gateway each, with
// certificates, a Redis server and a shared folder.
type Cluster struct {
	// Dir is the folder that the servers share.
	Dir string
	// Address is the address of Redis.
	Address string
	// Clock is the file with the offset of Redis' clock, beside a library of the
	// same name. Empty means that the clock is right.
	Clock string
	// Redis is the process of Redis.
	Redis *exec.Cmd
	// Servers are in the order of their starts.
	Servers []*Server
	// Blobs is the blob store of the next servers; empty for a folder in Dir.
	Blobs string
	// Settings are more settings of the next servers about their cluster, such as "take_over: 1s".
	Settings string
	// Program is another build of the program for the next servers; empty for the one in bin.
	Program string
}

// NewCluster makes a cluster without servers, and starts its Redis.
func NewCluster(ctx context.Context) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "sandgate-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir}
	if err = os.Chmod(dir, 0o755); err == nil {
		c.Address, err = testenv.FreeAddress()
	}
	if err == nil {
		err = c.StartRedis(ctx)
	}
	if err == nil {
		_, err = Sandgate("cluster", "init", dir+"/ca")
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Sandgate runs the program until it ends.
func Sandgate(args ...string) (string, error) {
	bin, err := Bin("sandgate")
	if err != nil {
		return "", err
	}
	out, err := exec.Command(bin, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("e2e: sandgate %v: %w: %s", args, err, out)
	}
	return string(out), err
}

// StartRedis starts the Redis server without the data of an earlier one.
func (c *Cluster) StartRedis(ctx context.Context) error {
	_, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return err
	}
	c.Redis = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
		"--dir", c.Dir)
	if c.Clock != "" {
		c.Redis.Env = append(os.Environ(), "LD_PRELOAD="+c.Clock+".so", "TEST_CLOCK="+c.Clock)
	}
	c.Redis.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Redis.Start(); err != nil {
		return fmt.Errorf("e2e: make test installs redis-server from Debian: %w", err)
	}
	for {
		conn, err := net.Dial("tcp", c.Address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("e2e: Redis did not start: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// StopRedis kills Redis.
func (c *Cluster) StopRedis() {
	if c.Redis == nil || c.Redis.Process == nil {
		return
	}
	_ = c.Redis.Process.Signal(syscall.SIGCONT)
	_ = c.Redis.Process.Kill()
	_ = c.Redis.Wait()
	c.Redis = nil
}

// Start adds a server, whose node is named n0, n1 and so on. Settings are lines
// of YAML; all servers have the token of the first.
func (c *Cluster) Start(ctx context.Context, lease time.Duration,
	settings string,
) (*Server, error) {
	name := fmt.Sprint("n", len(c.Servers))
	if _, err := Sandgate("cluster", "join", "--role", "both", c.Dir+"/ca", name); err != nil {
		return nil, err
	}
	listen, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	token := ""
	if len(c.Servers) > 0 {
		token = c.Servers[0].Token
	}
	s, err := startRelease(ctx, c.Program, fmt.Sprintf(
		"%s\ncluster: {redis: \"redis://%s/0\", node: %s, listen: %q, dir: %s/ca/%s, lease: %s, "+
			"blobs: %q, %s}", settings, c.Address, name, listen, c.Dir, name, lease,
		cmp.Or(c.Blobs, c.Dir+"/blobs"), c.Settings), token)
	if err == nil {
		c.Servers = append(c.Servers, s)
	}
	return s, err
}

// Signal sends a signal to the server's node.
func (s *Server) Signal(sig syscall.Signal) {
	if pid, err := s.Child("node"); err == nil {
		_ = syscall.Kill(pid, sig)
	}
}

// Drain moves the sessions of the server's node to others.
func (s *Server) Drain() (said string, err error) {
	return Sandgate("node", "drain", "--config", s.Config)
}

// Stop ends all servers and Redis, and removes the folders.
func (c *Cluster) Stop() error {
	var errs []error
	for _, s := range c.Servers {
		s.Signal(syscall.SIGCONT)
		errs = append(errs, s.Stop())
	}
	c.StopRedis()
	return errors.Join(append(errs, os.RemoveAll(c.Dir))...)
}
