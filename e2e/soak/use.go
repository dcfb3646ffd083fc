package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/protocol"
)

// soak is one run.
type soak struct {
	cluster *e2e.Cluster
	server  *e2e.Server
	seed    uint64
	workers int

	visits, faults atomic.Int64
}

// faultEvery is the mean time between two faults of a process.
const faultEvery = 20 * time.Second

// round lets users work for a time, with faults. Users' requests may fail, because of the faults.
func (s *soak) round(ctx context.Context, n uint64, long time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var wg sync.WaitGroup
	for worker := range uint64(s.workers) {
		r := s.random(n, worker+1)
		wg.Go(func() {
			for ctx.Err() == nil {
				if s.visit(ctx, r) == nil {
					s.visits.Add(1)
				}
			}
		})
	}
	defer wg.Wait()
	r := s.random(n, 0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration((0.5 + r.Float64()) * float64(faultEvery))):
		}
		if err := s.fault(r); err != nil {
			return err
		}
	}
}

// fault kills the node or the gateway, and starts the server again.
func (s *soak) fault(r *rand.Rand) error {
	child := []string{"node", "gateway"}[r.IntN(2)]
	pid, err := s.server.Child(child)
	if err != nil {
		return err
	}
	s.faults.Add(1)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	_ = s.server.Halt(syscall.SIGTERM) // its error reports the kill
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return s.server.Boot(ctx)
}

// visit is one user: a session with some work, which is deleted or forgotten.
func (s *soak) visit(ctx context.Context, r *rand.Rand) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	made, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "python"})
	if err != nil {
		return errors.Join(err, wait(ctx, 200*time.Millisecond))
	}
	if r.IntN(4) > 0 {
		defer func() { _ = c.DeleteSession(context.WithoutCancel(ctx), made.ID) }()
	}
	for range 1 + r.IntN(4) {
		if err := s.act(ctx, r, c, made.ID); err != nil {
			return err
		}
	}
	return nil
}

// act is one thing that a user does with a session.
func (s *soak) act(ctx context.Context, r *rand.Rand, c *wire.Client, id string) error {
	run := func(ctx context.Context, code string) error {
		return c.Run(ctx, protocol.RunRequest{Session: id, Language: "python", Code: code},
			func(protocol.RunEvent) error { return nil })
	}
	switch r.IntN(8) {
	case 0: // a connection that is cut in the middle of output
		short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(300))*time.Millisecond)
		defer cancel()
		_ = run(short, "for i in range(10**6): print(i)")
		return ctx.Err()
	case 1: // the sandbox is killed for its memory
		_ = run(ctx, "import subprocess, sys\n[subprocess.Popen([sys.executable, '-c', "+
			"'x = bytearray(200 << 20); x[::4096] = b\"1\" * len(x[::4096]); input()'], "+
			"stdin=subprocess.PIPE) for _ in range(14)]\nimport time; time.sleep(5)")
		return errors.New("the session has ended")
	case 2:
		_, err := c.Upload(ctx, id, "f", 0, strings.NewReader(strings.Repeat("x", 1<<r.IntN(22))))
		return err
	case 3:
		_, err := c.HibernateSession(ctx, id)
		return err
	case 4:
		forks, err := c.ForkSession(ctx, protocol.SessionFork{Session: id})
		for _, f := range forks.Sessions {
			err = errors.Join(err, c.DeleteSession(ctx, f.ID))
		}
		return err
	case 5:
		snapshot, err := c.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: id})
		if err == nil && r.IntN(2) == 0 {
			err = c.DeleteSnapshot(ctx, snapshot.ID)
		}
		return err
	case 6: // a WebSocket that is left without a word
		conn, err := c.Connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.OpenChannel(ctx, protocol.ChannelOpen{
			Session: id, Kind: "terminal", Argv: []string{"bash"},
		})
		return err
	}
	return run(ctx, "print('x' * 200_000)")
}

// client returns a client with its own connections.
func (s *soak) client() (*wire.Client, error) {
	return wire.New(s.server.URL, s.server.Token, wire.Options{
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
}

func wait(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}
