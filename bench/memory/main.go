// Memory compares sandboxes that share the memory of their template (pool.shared_memory) with
// sandboxes that have a copy. It starts a server of each kind and measures them in turns, so that
// both meet the same machine. It needs root, `make build` and an idle machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/protocol"
)

func main() {
	rounds := flag.Int("rounds", 20, "rounds; the servers have their turns in each")
	resting := flag.Int("sessions", 8, "idle sessions that exist at once on each server")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if err := run(ctx, *rounds, *resting); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds, resting int) error {
	copied, err := start(ctx, false)
	if err != nil {
		return err
	}
	defer copied.server.Stop()
	shared, err := start(ctx, true)
	if err != nil {
		return err
	}
	defer shared.server.Stop()
	for i := range rounds {
		turn := []*side{copied, shared}
		if i%2 == 1 {
			slices.Reverse(turn)
		}
		for _, s := range turn {
			if err := s.life(ctx); err != nil {
				return fmt.Errorf("%s, round %d: %w", s.name, i+1, err)
			}
		}
	}
	for _, s := range []*side{copied, shared} {
		if err := s.density(ctx, resting); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Printf("%-48s %10s %10s %10s %10s\n", "median and 99th percentile", "copied", "", "shared", "")
	for _, name := range copied.order {
		c, s := copied.values[name], shared.values[name]
		fmt.Printf("%-48s %10.2f %10.2f %10.2f %10.2f\n", name,
			quantile(c, 0.5), quantile(c, 0.99), quantile(s, 0.5), quantile(s, 0.99))
	}
	return nil
}

// side is one server with its figures.
type side struct {
	name   string
	server *e2e.Server
	client *wire.Client
	conn   *wire.Conn
	order  []string // the names, as they were first measured
	values map[string][]float64
}

func start(ctx context.Context, shared bool) (*side, error) {
	server, err := e2e.Start(ctx, fmt.Sprintf(
		"pool: {size: 1, memory: 0, languages: [python], shared_memory: %t}\n"+
			"sessions: {max: 64, idle_pause: 0s, memory: 1TiB}", shared))
	if err != nil {
		return nil, err
	}
	s := &side{name: "copied", server: server, values: map[string][]float64{}}
	if shared {
		s.name = "shared"
	}
	if s.client, err = wire.New(server.URL, server.Token, wire.Options{}); err == nil {
		s.conn, err = s.client.Connect(ctx)
	}
	if err != nil {
		server.Stop()
		return nil, err
	}
	return s, nil
}

func (s *side) add(name string, v float64) {
	if _, known := s.values[name]; !known {
		s.order = append(s.order, name)
	}
	s.values[name] = append(s.values[name], v)
}

// timed adds how long f takes, in milliseconds.
func (s *side) timed(name string, f func() error) error {
	begin := time.Now()
	err := f()
	s.add(name+", ms", float64(time.Since(begin).Microseconds())/1000)
	return err
}

// cell adds how long a cell takes, from sending it to its reply.
func (s *side) cell(ctx context.Context, name string, k *wire.Kernel, code string) error {
	return s.timed(name, func() error {
		cell, err := k.Execute(ctx, code, wire.ExecuteOptions{})
		if err != nil {
			return err
		}
		reply, err := cell.Wait(ctx)
		if err == nil && reply.Status != "ok" {
			err = fmt.Errorf("%q: %s", code, reply.EValue)
		}
		return err
	})
}

// life measures the life of one pandas session.
func (s *side) life(ctx context.Context) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	begin := time.Now()
	id, k, err := s.startSession(ctx, protocol.SessionCreate{Language: "python"})
	if err != nil {
		return err
	}
	for _, step := range []struct{ name, code string }{
		{"the first cell", "print(1)"},
		{"the second cell", "print(1)"},
		{"import pandas and numpy", "import pandas, numpy"},
		{"the first table", "t = pandas.DataFrame({'a': range(100000)}); print(t.describe())"},
		{"a list of a million numbers", "x = [i for i in range(1000000)]"},
		{"the collection of garbage", "import gc; gc.collect()"},
		{"a cell afterwards", "print(1)"},
	} {
		if err := s.cell(ctx, step.name, k, step.code); err != nil {
			return err
		}
		if step.name == "the first cell" {
			s.add("claim to first output, ms", float64(time.Since(begin).Microseconds())/1000)
		}
	}
	if err := s.copies(ctx, id); err != nil {
		return err
	}
	if err := s.cell(ctx, "a cell after a fork", k, "print(1)"); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := s.timed("hibernate", func() error {
		_, err := s.client.HibernateSession(ctx, id)
		return err
	}); err != nil {
		return err
	}
	s.add("disk of a hibernated session, MiB", s.disk("sessions/"+id))
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := s.cell(ctx, "resume, to the end of a cell", k, "print(len(t))"); err != nil {
		return err
	}
	if err := s.cell(ctx, "the second cell after a resume", k, "print(len(t))"); err != nil {
		return err
	}
	return s.client.DeleteSession(ctx, id)
}

// startSession creates a session and attaches its first kernel.
func (s *side) startSession(ctx context.Context, p protocol.SessionCreate,
) (string, *wire.Kernel, error) {
	made, err := s.client.CreateSession(ctx, p)
	if err != nil {
		return "", nil, err
	}
	k, err := s.conn.Kernel(ctx, made.ID, "k1")
	return made.ID, k, err
}

// copies measures a fork, eight at once, and a session that starts from a snapshot.
func (s *side) copies(ctx context.Context, id string) error {
	for _, n := range []int{1, 8} {
		if err := s.settle(ctx); err != nil {
			return err
		}
		var forks protocol.Forks
		if err := s.timed(fmt.Sprintf("forks at once: %d", n), func() (err error) {
			forks, err = s.client.ForkSession(ctx, protocol.SessionFork{Session: id, Count: n})
			return err
		}); err != nil {
			return err
		}
		for _, one := range forks.Sessions {
			if err := s.client.DeleteSession(ctx, one.ID); err != nil {
				return err
			}
		}
	}
	taken, err := s.client.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: id})
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	var started string
	if err := s.timed("start from a snapshot, to the end of a cell", func() error {
		var k *wire.Kernel
		var err error
		if started, k, err = s.startSession(ctx,
			protocol.SessionCreate{Snapshot: taken.ID}); err != nil {
			return err
		}
		return s.cell(ctx, "its first cell", k, "print(len(t))")
	}); err != nil {
		return err
	}
	if err := s.client.DeleteSession(ctx, started); err != nil {
		return err
	}
	return s.client.DeleteSnapshot(ctx, taken.ID)
}

// settle waits until the pool is full, and half a second longer for sandboxes that are removed.
func (s *side) settle(ctx context.Context) error {
	if err := s.server.Warm(ctx); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	return nil
}

// density adds the memory of idle sessions that have run one cell. The memory is what their
// control groups are charged for, including gVisor.
func (s *side) density(ctx context.Context, n int) error {
	var ids []string
	for range n {
		id, k, err := s.startSession(ctx, protocol.SessionCreate{Language: "python"})
		if err != nil {
			return err
		}
		if err := s.cell(ctx, "a cell of an idle session", k, "print(1)"); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // data that is loaded in the background is part of it
	var all float64
	for _, id := range ids {
		v, err := s.client.Session(ctx, id)
		if err != nil {
			return err
		}
		all += float64(v.Usage.MemoryBytes) / (1 << 20)
	}
	s.add("memory of an idle session, MiB", all/float64(n))
	s.add("idle sessions per GiB", 1024/(all/float64(n)))
	for _, id := range ids {
		if err := s.client.DeleteSession(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// disk returns the size of a folder of the node in MiB. A file with several links is not counted:
// it is the base of a delta, and belongs to the template.
func (s *side) disk(name string) float64 {
	var n int64
	_ = filepath.WalkDir(filepath.Join(s.server.Dir, "data", "node", name),
		func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				if info, err := e.Info(); err == nil && links(info) == 1 {
					n += info.Size()
				}
			}
			return nil // files that disappear meanwhile are not counted
		})
	return float64(n) / (1 << 20)
}

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(math.Floor(q*float64(len(v)))))]
}
