package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// held counts the resources of the host that a running server holds.
func held(t *testing.T, s *Server) map[string]int {
	t.Helper()
	count := map[string]int{"leftovers": len(leftovers(s))}
	for _, name := range []string{"node", "gateway"} {
		pid, err := s.Child(name)
		check(t, err)
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		count[name+" descriptors"] = len(fds)
	}
	logs, _ := filepath.Glob(s.Dir + "/data/node/logs/*")
	count["logs"] = len(logs)
	return count
}

// TestSoak does at random what users do, with some mistakes, and then counts what the
// server holds: as much as before. SANDGATE_SOAK is its duration, 10s by default.
// SANDGATE_SEED repeats a run.
func TestSoak(t *testing.T) {
	long := 10 * time.Second
	if text := os.Getenv("SANDGATE_SOAK"); text != "" {
		var err error
		long, err = time.ParseDuration(text)
		check(t, err)
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SANDGATE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		check(t, err)
	}
	t.Logf("SANDGATE_SEED=%d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), long+4*time.Minute)
	defer cancel()
	s, err := Start(ctx, "pool: {size: 1, memory: 0, spare: 0}\nsessions: {max: 6}")
	check(t, err)
	defer s.Stop()

	work := func(r *rand.Rand, until time.Time) (rounds int) {
		for ; time.Now().Before(until) || rounds == 0; rounds++ {
			if err := visit(ctx, s, r); err != nil {
				t.Errorf("seed %d: %v", seed, err)
				return rounds
			}
		}
		return rounds
	}
	work(rand.New(rand.NewPCG(seed, 0)), time.Now()) // memory that is allocated once stays
	http.DefaultClient.CloseIdleConnections()
	check(t, s.Warm(ctx))
	before := held(t, s)
	var wg sync.WaitGroup
	until := time.Now().Add(long)
	for worker := range uint64(3) {
		wg.Go(func() {
			n := work(rand.New(rand.NewPCG(seed, worker+1)), until)
			t.Logf("worker %d made %d visits", worker, n)
		})
	}
	wg.Wait()

	// Sandboxes and connections end in the background.
	var after map[string]int
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(5 * time.Minute); time.Now().Before(limit); <-tick.C {
		http.DefaultClient.CloseIdleConnections()
		if !s.warm(ctx) {
			continue
		}
		after = held(t, s)
		more := false
		for what, n := range after {
			more = more || n > before[what]
		}
		if !more {
			return
		}
	}
	t.Errorf("before %v, after %v", before, after)
}

// visit is one user's session, from its creation to its end.
func visit(ctx context.Context, s *Server, r *rand.Rand) error {
	c, err := wire.New(s.URL, s.Token, wire.Options{HTTP: http.DefaultClient})
	if err != nil {
		return err
	}
	if r.IntN(4) == 0 { // a run button; some of its users disconnect
		patience := 20 * time.Second
		if r.IntN(2) == 0 {
			patience = time.Duration(r.IntN(100)) * time.Millisecond
		}
		hurried, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		res, err := s.Do(hurried, "POST", "/v1/run",
			map[string]any{"language": "python", "code": "print(1); import time; time.sleep(0.1)"})
		if err == nil {
			res.Body.Close()
		}
		return ctx.Err()
	}
	made, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "python"})
	if err != nil {
		return err
	}
	defer c.DeleteSession(ctx, made.ID)
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	k, err := conn.Kernel(ctx, made.ID, made.Channels[0].ID)
	if err != nil {
		return err
	}
	for range r.IntN(6) {
		switch r.IntN(6) {
		case 0, 1:
			cell, err := k.Execute(ctx, "print('x' * 100_000)", wire.ExecuteOptions{})
			if err != nil {
				return err
			}
			if r.IntN(2) == 0 { // some users read the output
				for err == nil {
					_, err = cell.Next(ctx)
				}
			}
			cell.Close()
		case 2:
			cell, err := k.Execute(ctx, "while True: pass",
				wire.ExecuteOptions{Timeout: 100 * time.Millisecond})
			if err != nil {
				return err
			}
			for err == nil {
				_, err = cell.Next(ctx)
			}
			cell.Close()
		case 3:
			term, err := conn.StartTerminal(ctx,
				protocol.ChannelOpen{Session: made.ID, Argv: []string{"sh"}, Cols: 80, Rows: 24})
			if err != nil {
				return err
			}
			if err := term.Type(ctx, []byte("sleep 100 & echo hi\r")); err != nil {
				return err
			}
			term.Close()
		case 4:
			if _, err := c.Upload(ctx, made.ID, "f", 0,
				strings.NewReader(strings.Repeat("y", r.IntN(1<<20)))); err != nil {
				return err
			}
			body, err := c.Download(ctx, made.ID, "f")
			if err != nil {
				return err
			}
			body.Close() // most of it was not read
		case 5:
			res, err := s.Do(ctx, "POST", "/v1/sessions", map[string]any{"language": "klingon"})
			if err != nil {
				return err
			}
			res.Body.Close()
			if res.StatusCode != http.StatusBadRequest {
				return fmt.Errorf("for an unknown language: %s", res.Status)
			}
		}
	}
	return nil
}
