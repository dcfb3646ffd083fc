package session

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

// newGVisor starts a node with real sandboxes. data is the folder of its snapshots.
func newGVisor(t testing.TB, data string, change ...func(*Config)) *rig {
	t.Helper()
	return newGVisorThat(t, false, data, change...)
}

// newGVisorThat is newGVisor, with sandboxes that copy the memory of their snapshot or share it.
func newGVisorThat(t testing.TB, copies bool, data string, change ...func(*Config)) *rig {
	t.Helper()
	snapshots := filepath.Join(data, "snapshots")
	if err := os.MkdirAll(snapshots, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := testenv.TakeSnapshots(snapshots); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := testenv.ShareSnapshots(snapshots); err != nil {
			t.Error(err)
		}
	})
	state, err := os.MkdirTemp("/run", "sandgate-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(state); err != nil {
			t.Error(err)
		}
	})
	rt, err := gvisor.NewRuntime(gvisor.Config{
		Runsc: built.runsc, StateDir: state, CopyMemory: copies,
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := kernel.Load(testenv.Path("langs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if n := rt.Live(); n != 0 {
			t.Errorf("%d sandboxes remain", n)
		}
		if err := rt.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	backend := &gvisor.Backend{
		Runtime: rt,
		Spec: gvisor.Spec{
			Image: built.image, Args: []string{sandbox.AgentPath},
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
	}
	return newNode(t, backend, append([]func(*Config){func(c *Config) {
		c.Languages, c.DataDir = list, data
		c.Pools = map[string]int{"python": 1}
		c.ClaimWait = 2 * time.Minute
	}}, change...)...)
}

func TestGVisor(t *testing.T) {
	data := t.TempDir()
	r := newGVisor(t, data)
	begin := time.Now()
	s := r.create()
	t.Logf("the first session, with its snapshot made: %s", time.Since(begin))
	p := r.open()
	p.attach(1, s.ID, "k1")
	if text, reply := p.run(1, "import sys\nprint(6*7)"); text != "42\n" || reply.Status != "ok" ||
		reply.Count != 1 {
		t.Errorf("got %q, %+v", text, reply)
	}
	begin = time.Now()
	const rounds = 50
	for range rounds {
		p.run(1, "1")
	}
	t.Logf("a cell's round trip: %s", time.Since(begin)/rounds)

	// State, errors and interrupts.
	p.run(1, "x = 41")
	if text, _ := p.run(1, "print(x + 1)"); text != "42\n" {
		t.Errorf("state: %q", text)
	}
	if _, reply := p.run(1, "1/0"); reply.EName != "ZeroDivisionError" {
		t.Errorf("an error: %+v", reply)
	}
	cell := p.execute(1, "print('on', flush=True)\nwhile True: pass")
	p.printed(1, "on\n")
	begin = time.Now()
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{}, nil)
	if reply := p.reply(1, cell); reply.EName != "KeyboardInterrupt" {
		t.Errorf("interrupted: %+v", reply)
	}
	t.Logf("an interrupt: %s", time.Since(begin))

	// Two clones draw different random numbers.
	o := r.create()
	p.attach(2, o.ID, "k1")
	draw := "import random, uuid, os, numpy\nprint(random.random(), uuid.uuid4(), os.urandom(8).hex(), numpy.random.rand(), hash('a') if False else '', os.uname().nodename)"
	one, _ := p.run(1, draw)
	two, _ := p.run(2, draw)
	a, b := strings.Fields(one), strings.Fields(two)
	if len(a) < 5 || len(a) != len(b) {
		t.Fatalf("drawn: %q and %q", one, two)
	}
	for i := range a {
		if a[i] == b[i] {
			t.Errorf("two clones share %q", a[i])
		}
	}

	// Files, processes, and the state after a pause.
	r.upload(s.ID, "hello.py", []byte("import sys; print('file', sys.argv[1])\n"))
	c := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "process", File: "hello.py", Args: []string{"x"}})
	p.attach(3, s.ID, c.ID)
	if e := p.exit(3); e.Code != 0 {
		t.Errorf("a program: %+v", e)
	}
	p.printed(3, "file x")
	sess := r.session(s.ID)
	eventually(t, "it is paused", func() bool {
		newJanitor(r.m).pauseIdle(sess, time.Now())
		return sess.View().State == paused.String()
	})
	begin = time.Now()
	if text, _ := p.run(1, "print(x)"); text != "41\n" {
		t.Errorf("after a pause: %q", text)
	}
	t.Logf("a cell that wakes the sandbox: %s", time.Since(begin))

	// A killed sandbox is reported.
	cell = p.execute(2, "import time\nprint('sleeping', flush=True)\ntime.sleep(1000)")
	p.printed(2, "sleeping")
	r.session(o.ID).machine.(*gvisor.Sandbox).Kill("by the test")
	if reply := p.reply(2, cell); reply.EName != "SandboxLost" {
		t.Errorf("the cell of a killed sandbox: %+v", reply)
	}
	if e := p.exit(2); e.Reason != "killed" {
		t.Errorf("its channel: %+v", e)
	}
	r.stop()

	// The next process finds the snapshot and boots nothing cold.
	r = newGVisor(t, data)
	begin = time.Now()
	s = r.create()
	t.Logf("the first session of a new process: %s", time.Since(begin))
	p = r.open()
	p.attach(1, s.ID, "k1")
	if text, _ := p.run(
		1, "import pandas\nprint(len(pandas.DataFrame({'a': [1, 2]})))"); text != "2\n" {
		t.Errorf("pandas: %q", text)
	}
	if c := r.m.Status().Counters; c["cold_boots"] != 0 || c["restores"] == 0 {
		t.Errorf("counters: %v", c)
	}
	eventually(t, "the pool is full", func() bool { return r.m.Status().Pool.Ready == 1 })
	begin = time.Now()
	must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Env: map[string]string{"A": "b"}})
	t.Logf("a session from the pool, with an environment: %s", time.Since(begin))
}

// TestGVisorOutOfMemory checks that a client learns which limit was exceeded.
func TestGVisorOutOfMemory(t *testing.T) {
	r := newGVisor(t, t.TempDir())
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	cell := p.execute(1, "b = []\nwhile True: b.append(bytearray(64 << 20))")
	reply := p.reply(1, cell)
	if reply.Status != "error" {
		t.Errorf("the cell: %+v", reply)
	}
	// Either the language got an error (MemoryError), or its kernel died, or the sandbox. Each
	// reports the reason.
	t.Logf("%s: %s", reply.EName, reply.EValue)
	if reply.EName == "SandboxLost" {
		if e := p.exit(1); e.Reason != "memory" {
			t.Errorf("the channel: %+v", e)
		}
	}
}
