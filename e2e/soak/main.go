// Command soak uses a server for hours as users do, with faults: killed nodes and gateways, cut
// connections, sandboxes without memory. Between rounds of faults it counts what the server holds.
// It ends with status 1 if that grows.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/e2e"
)

func main() {
	long := flag.Duration("for", 10*time.Minute, "how long")
	workers := flag.Int("workers", 1, "how many users at a time")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "repeats a run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *long, *workers, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// settings are those of the server: few sandboxes, durable sessions, which are hibernated soon.
const settings = `pool: {size: 1, languages: [python], memory: 0, spare: 0}
sessions: {max: 8, idle_pause: 2s, idle_hibernate: 4s, durable: true, durable_every: 2s}
limits: {memory: 512MiB}`

// run uses a server of its own until the time is over.
func run(ctx context.Context, long time.Duration, workers int, seed uint64) (err error) {
	fmt.Printf("soak: %s with %d users, seed %d\n", long, workers, seed)
	cluster, err := e2e.NewCluster(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := cluster.Stop(); err == nil {
			err = stopped
		}
	}()
	server, err := cluster.Start(ctx, 8*time.Second, settings)
	if err != nil {
		return err
	}
	s := &soak{cluster: cluster, server: server, seed: seed, workers: workers}
	// Memory and files that are made once do not count.
	if err := s.round(ctx, 0, 20*time.Second); err != nil {
		return err
	}
	before, err := s.quiet(ctx)
	if err != nil {
		return err
	}
	fmt.Println("soak: at the start:", before)
	until := time.Now().Add(long)
	for n := uint64(1); time.Now().Before(until) && ctx.Err() == nil; n++ {
		if err := s.round(ctx, n, min(time.Minute, time.Until(until))); err != nil {
			return err
		}
		now, err := s.quiet(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("soak: round %d, %d visits, %d faults: %v\n", n, s.visits.Load(),
			s.faults.Load(), now)
		if err := now.within(before); err != nil {
			return fmt.Errorf("round %d: %w\n%s", n, err, s.server.Complaints())
		}
	}
	return ctx.Err()
}

// random returns the random numbers of one worker in one round.
func (s *soak) random(round, worker uint64) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed+round, worker))
}
