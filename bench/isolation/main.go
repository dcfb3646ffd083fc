// Isolation prints the time of a cell and of a new session of one tenant while another tenant
// attacks in each of several ways, beside the times without an attack. It starts a server with the
// default shares of tenants. The attacker is a process of its own, so that it does not delay the
// measurement. It needs root, `make build` and an idle machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/protocol"
)

func main() {
	cells := flag.Int("cells", 200, "cells of each measurement; a tenth of it is the number of sessions")
	only := flag.String("only", "", "the names of the attacks to measure, separated by commas; default all")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	var err error
	if name := os.Getenv(attackName); name != "" {
		err = attackFromOutside(ctx, name)
	} else {
		err = run(ctx, *cells, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "isolation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, cells int, only string) error {
	s, err := e2e.Start(ctx, "pool: {size: 2, memory: 0}\nlimits: {cpus: 1}")
	if err != nil {
		return err
	}
	defer s.Stop()
	victim, err := tenant(ctx, s, "victim")
	if err != nil {
		return err
	}
	attacker, err := tenant(ctx, s, "attacker")
	if err != nil {
		return err
	}
	fmt.Println("median and 99th percentile with an attack and without, and the ratio of the latter")
	for _, a := range attacks {
		if only != "" && !slices.Contains(strings.Split(only, ","), a.name) {
			continue
		}
		idle, err := measure(ctx, victim, cells)
		if err != nil {
			return fmt.Errorf("before %s: %w", a.name, err)
		}
		stop, err := startProcess(ctx, a, attacker)
		if err != nil {
			return err
		}
		attacked, err := measure(ctx, victim, cells)
		if ended := stop(); err == nil {
			err = ended
		}
		if err != nil {
			return fmt.Errorf("during %s: %w", a.name, err)
		}
		if err := attacker.clear(ctx); err != nil {
			return err
		}
		if err := s.Warm(ctx); err != nil {
			return err
		}
		line("a cell", a.name, attacked.cells, idle.cells)
		line("a new session", a.name, attacked.sessions, idle.sessions)
	}
	return nil
}

// side is one tenant.
type side struct {
	url, key string
	client   *client.Client // its connection
	wire     *wire.Client   // single requests
}

// tenant returns a new tenant with a key of its own.
func tenant(ctx context.Context, s *e2e.Server, name string) (*side, error) {
	admin, err := wire.New(s.URL, s.Token, wire.Options{})
	if err != nil {
		return nil, err
	}
	made, err := admin.CreateKey(ctx, protocol.KeyCreate{Tenant: name, Role: "owner"})
	if err != nil {
		return nil, err
	}
	return newSide(s.URL, made.Secret)
}

// newSide returns the side of a key.
func newSide(url, key string) (t *side, err error) {
	t = &side{url: url, key: key}
	if t.client, err = client.New(client.Options{URL: t.url, Token: t.key}); err != nil {
		return nil, err
	}
	t.wire, err = wire.New(t.url, t.key, wire.Options{})
	return t, err
}

// clear deletes the sessions and snapshots of the tenant.
func (t *side) clear(ctx context.Context) error {
	sessions, err := t.wire.Sessions(ctx)
	if err != nil {
		return err
	}
	for _, one := range sessions {
		_ = t.wire.DeleteSession(ctx, one.ID) // it may have ended
	}
	snapshots, err := t.wire.Snapshots(ctx)
	for _, one := range snapshots {
		_ = t.wire.DeleteSnapshot(ctx, one.ID)
	}
	return err
}

// times are in milliseconds.
type times struct{ cells, sessions []float64 }

// measure runs cells in one session, and creates sessions and runs a cell in each.
func measure(ctx context.Context, t *side, cells int) (m times, err error) {
	s, err := t.client.Sandbox(ctx, client.SandboxOptions{})
	if err != nil {
		return m, err
	}
	for range cells {
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		if _, err := s.Run(ctx, "1"); err != nil {
			return m, err
		}
		m.cells = append(m.cells, ms(time.Since(begin)))
	}
	if err := s.Close(); err != nil {
		return m, err
	}
	for range cells / 10 {
		time.Sleep(200 * time.Millisecond) // the pool prepares another sandbox meanwhile
		begin := time.Now()
		s, err := t.client.Sandbox(ctx, client.SandboxOptions{})
		if err != nil {
			return m, err
		}
		if _, err := s.Run(ctx, "1"); err != nil {
			return m, err
		}
		m.sessions = append(m.sessions, ms(time.Since(begin)))
		if err := s.Close(); err != nil {
			return m, err
		}
	}
	return m, nil
}

func line(name, attack string, attacked, idle []float64) {
	fmt.Printf("%-14s %-12s %8.2f %8.2f ms, without %8.2f %8.2f ms, ratio %5.1f\n", name, attack,
		quantile(attacked, 0.5), quantile(attacked, 0.99), quantile(idle, 0.5),
		quantile(idle, 0.99), quantile(attacked, 0.99)/quantile(idle, 0.99))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(math.Floor(q*float64(len(v)))))]
}
