package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// attack is one kind of load that a tenant causes with all that its key allows.
type attack struct {
	name    string
	workers int
	// turn is repeated by each worker until the attack ends. Refusals are part of the attack.
	turn func(context.Context, *side) error
}

// attacks are the kinds of load, in the order of their measurement.
var attacks = []attack{
	{"loops", 3, code("import os\nfor i in range(7):\n    if not os.fork(): break\n" +
		"while True: pass")},
	{"processes", 3, code("import subprocess\nwhile True: subprocess.run(['true'])")},
	{"memory", 3, code("while True: b = bytearray(b'x') * (300 << 20); del b")},
	{"disk", 3, code("import os\nwhile True:\n    with open('big', 'wb') as f:\n" +
		"        for i in range(200): f.write(bytes(1 << 20))\n    os.remove('big')")},
	{"output", 3, code("while True: print('x' * 1000)")},
	{"sessions", 8, createAndDelete},
	{"snapshots", 4, snapshotAndDelete},
	{"runs", 16, runOnce},
	{"uploads", 8, upload},
	{"requests", 64, list},
	{"connections", 32, connect},
}

// start begins an attack and returns once each worker is in its first turn. The attack ends when
// stop returns.
func (a attack) start(ctx context.Context, t *side) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg, begun sync.WaitGroup
	for range a.workers {
		begun.Add(1)
		wg.Go(func() {
			begun.Done()
			for ctx.Err() == nil {
				if a.turn(ctx, t) != nil {
					time.Sleep(5 * time.Millisecond) // a client that takes a refusal well
				}
			}
		})
	}
	begun.Wait()
	return func() { cancel(); wg.Wait() }
}

// code returns an attack that runs code in a session and reads its output.
func code(source string) func(context.Context, *side) error {
	return func(ctx context.Context, t *side) error {
		s, err := t.client.Sandbox(ctx, client.SandboxOptions{})
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Run(ctx, source)
		return err
	}
}

func createAndDelete(ctx context.Context, t *side) error {
	made, err := t.wire.CreateSession(ctx, protocol.SessionCreate{Language: "python"})
	if err != nil {
		return err
	}
	return t.wire.DeleteSession(ctx, made.ID)
}

func snapshotAndDelete(ctx context.Context, t *side) error {
	made, err := t.wire.CreateSession(ctx, protocol.SessionCreate{Language: "python"})
	if err != nil {
		return err
	}
	snapshot, err := t.wire.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: made.ID})
	if err == nil {
		err = t.wire.DeleteSnapshot(ctx, snapshot.ID)
	}
	if gone := t.wire.DeleteSession(ctx, made.ID); err == nil {
		err = gone
	}
	return err
}

func runOnce(ctx context.Context, t *side) error {
	_, err := t.client.Run(ctx, protocol.RunRequest{Language: "python", Code: "print(1)"})
	return err
}

func upload(ctx context.Context, t *side) error {
	made, err := t.wire.CreateSession(ctx, protocol.SessionCreate{Language: "python"})
	if err != nil {
		return err
	}
	defer t.wire.DeleteSession(context.WithoutCancel(ctx), made.ID)
	for {
		_, err := t.wire.Upload(ctx, made.ID, "big", 0o644, io.LimitReader(rand.Reader, 64<<20))
		if err != nil {
			return err
		}
	}
}

func list(ctx context.Context, t *side) error {
	_, err := t.wire.Sessions(ctx)
	return err
}

// connect opens a connection, sends a bad request of 100 KiB and closes the connection.
func connect(ctx context.Context, t *side) error {
	c, err := client.New(client.Options{URL: t.url, Token: t.key})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Connect(ctx); err != nil {
		return err
	}
	err = c.Call(ctx, protocol.OpSessionGet, strings.Repeat("x", 100<<10), nil)
	if err == nil {
		return fmt.Errorf("a bad request got %d", http.StatusOK)
	}
	return nil
}
