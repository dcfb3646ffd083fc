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
	admin   *goredis.Client
	tenants *tenant.Store
	nodes   []*node
	routers []*noderouter.Router
	parked  parked
	clients []*redis.Client
	end     context.CancelFunc
	work    sync.WaitGroup
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

// startRedis starts a server that stores nothing on disk.
func (s *simulation) startRedis(ctx context.Context) error {
	socket := filepath.Join(s.dir, "redis")
	s.server = exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "",
		"--appendonly", "no", "--dir", s.dir)
	s.server.Stderr = os.Stderr
	s.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.server.Start(); err != nil {
		return err
	}
	s.admin = goredis.NewClient(&goredis.Options{Network: "unix", Addr: socket})
	for try := 0; ; try++ {
		err := s.admin.Ping(ctx).Err()
		if err == nil || try == 100 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
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

// load is what Redis has used so far.
type load struct {
	at       time.Time
	cpu      float64 // seconds
	commands float64
	memory   float64 // bytes
}

func (s *simulation) redisUse(ctx context.Context) (l load, err error) {
	text, err := s.admin.Info(ctx, "cpu", "stats", "memory").Result()
	if err != nil {
		return l, err
	}
	l.at = time.Now()
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
