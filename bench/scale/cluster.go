package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/cluster/noderouter"
	"github.com/sandgate/sandgate/internal/cluster/redis"
	"github.com/sandgate/sandgate/internal/tenant"
)

// simulation is a cluster of simulated nodes.
type simulation struct {
	o       options
	dir     string
	server  *exec.Cmd
	port    string // the first server's
	admin   *goredis.Client
	tenants *tenant.Store
	nodes   []*node
	routers []*noderouter.Router
	parked  parked
	clients []*redis.Client
	// reclaimed counts the sessions that nodes have claimed again.
	reclaimed atomic.Int64
	end       context.CancelFunc
	work      sync.WaitGroup
}

func startCluster(ctx context.Context, o options) (s *simulation, err error) {
	s = &simulation{o: o, parked: parked{all: map[string]string{}}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "sandgate-scale-"); err != nil {
		return s, err
	}
	if err := s.startRedis(ctx); err != nil {
		return s, err
	}
	ctx, s.end = context.WithCancel(ctx)
	if s.tenants, err = tenant.Open(local.NewKeyTableStore(filepath.Join(s.dir, "keys"))); err != nil {
		return s, err
	}
	if err := s.tenants.SetQuota(ctx, "*", &tenant.Quota{Sessions: 1000}); err != nil {
		return s, err
	}
	for i := range o.nodes {
		id := cluster.NodeID("n" + strconv.Itoa(i))
		k, err := startNode(ctx, s, id, filepath.Join(s.dir, string(id)))
		if err != nil {
			return s, err
		}
		s.nodes = append(s.nodes, k)
	}
	for range o.gateways {
		s.startGateway(ctx)
	}
	return s, nil
}

// startRedis starts the server of the cluster.
func (s *simulation) startRedis(ctx context.Context) (err error) {
	if s.port, err = freePort(); err != nil {
		return err
	}
	s.server, s.admin, err = s.startServer(ctx, "redis", "--port", s.port)
	return err
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// startServer starts a server that listens on a socket and stores nothing on disk.
func (s *simulation) startServer(ctx context.Context, name string, args ...string,
) (*exec.Cmd, *goredis.Client, error) {
	socket := filepath.Join(s.dir, name)
	cmd := exec.Command("redis-server", append([]string{
		"--bind", "127.0.0.1", "--unixsocket", socket, "--save", "", "--appendonly", "no",
		"--dir", s.dir, "--repl-diskless-sync-delay", "0",
	}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: socket})
	for try := 0; ; try++ {
		err := c.Ping(ctx).Err()
		if err == nil || try == 100 {
			return cmd, c, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// promote makes a replica the server of the cluster. missed happens after the replica has received its
// last write.
func (s *simulation) promote(ctx context.Context, missed func() error) error {
	replica, c, err := s.startServer(ctx, "replica", "--port", "0", "--replicaof",
		"127.0.0.1 "+s.port)
	if err != nil {
		return err
	}
	if err := s.wait(ctx, func() bool {
		text, err := c.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(text, "master_link_status:up")
	}); err != nil {
		return err
	}
	if err := c.ReplicaOf(ctx, "no", "one").Err(); err != nil {
		return err
	}
	if err := missed(); err != nil {
		return err
	}
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
	_ = s.admin.Close()
	s.server = replica
	if err := os.Rename(filepath.Join(s.dir, "replica"), filepath.Join(s.dir, "redis")); err != nil {
		return err
	}
	_ = c.Close()
	s.admin = goredis.NewClient(&goredis.Options{
		Network: "unix", Addr: filepath.Join(s.dir, "redis"),
	})
	return nil
}

// directory returns a client of its own for a node or a gateway.
func (s *simulation) directory() redis.Directory {
	c, err := redis.Open(redis.Options{URL: "unix://" + filepath.Join(s.dir, "redis")})
	if err != nil {
		panic(err) // the address is constant
	}
	s.clients = append(s.clients, c)
	return c.Directory()
}

func (s *simulation) startGateway(ctx context.Context) {
	d := s.directory()
	placer := cluster.NewPlacer(d, cluster.PlacerOptions{Lease: s.o.lease})
	var r *noderouter.Router
	resolver := cluster.NewResolver(d, placer, func(e cluster.Event) { r.Moved(e) })
	r = noderouter.New(noderouter.Options{
		Resolver: resolver, Placer: placer,
		Dial: func(_, address string) func(context.Context) (net.Conn, error) {
			return func(ctx context.Context) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", address)
			}
		},
	})
	s.routers = append(s.routers, r)
	s.work.Go(func() { resolver.Run(ctx) })
}

func (s *simulation) close() {
	for _, r := range s.routers {
		_ = r.Close()
	}
	for _, k := range s.nodes {
		k.stop()
	}
	if s.end != nil {
		s.end()
	}
	s.work.Wait()
	for _, c := range s.clients {
		_ = c.Close()
	}
	if s.admin != nil {
		_ = s.admin.Close()
	}
	if s.server != nil && s.server.Process != nil {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// load is what Redis has used so far. own is the processor time of all nodes and gateways.
type load struct {
	at       time.Time
	cpu, own float64 // seconds
	commands float64
	memory   float64 // bytes
}

func (s *simulation) redisUse(ctx context.Context) (l load, err error) {
	text, err := s.admin.Info(ctx, "cpu", "stats", "memory").Result()
	if err != nil {
		return l, err
	}
	l.at = time.Now()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return l, err
	}
	l.own = time.Duration(own.Utime.Nano() + own.Stime.Nano()).Seconds()
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, _ := strconv.ParseFloat(value, 64) // texts are not used
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			l.cpu += n
		case "total_commands_processed":
			l.commands = n
		case "used_memory":
			l.memory = n
		}
	}
	return l, nil
}

// addLoad adds what Redis has used since an earlier moment, in a second.
func (s *simulation) addLoad(ctx context.Context, r *report, name string, since load) error {
	now, err := s.redisUse(ctx)
	if err != nil {
		return err
	}
	seconds := now.at.Sub(since.at).Seconds()
	r.add(name+": processor of Redis", "%.1f %%", 100*(now.cpu-since.cpu)/seconds)
	r.add(name+": processor of all nodes and gateways", "%.1f %%",
		100*(now.own-since.own)/seconds)
	return nil
}

// each calls f for the numbers below n from several goroutines, and returns the times of the calls.
func (s *simulation) each(n int, f func(i int) error) (all []time.Duration, err error) {
	var mu sync.Mutex // guards all and errs
	var errs []error
	var work sync.WaitGroup
	next := make(chan int)
	for range s.o.workers {
		work.Go(func() {
			for i := range next {
				begin := time.Now()
				err := f(i)
				took := time.Since(begin)
				mu.Lock()
				all = append(all, took)
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	work.Wait()
	if len(errs) > 0 {
		err = fmt.Errorf("%d of %d failed: %w", len(errs), n, errs[0])
	}
	return all, err
}

var errTime = errors.New("it took too long")
