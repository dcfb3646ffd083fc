package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, x := range []struct {
		script, out string
		exit        wire.Exit
	}{
		{
			"echo out; echo err >&2; exit 4", "out\nerr\n",
			wire.Exit{Code: 4, Reason: wire.ReasonExited},
		},
		{"kill -SEGV $$", "", wire.Exit{Code: 139, Signal: "SIGSEGV", Reason: wire.ReasonSignaled}},
		{"true", "", wire.Exit{Reason: wire.ReasonExited}},
	} {
		out, e := r.program(uint32(i+1), x.script)
		e.Message = ""
		if len(out) != len(x.out) || e != x.exit {
			t.Errorf("%q printed %q and ended with %+v", x.script, out, e)
		}
	}
	for i, x := range []struct {
		p     wire.StartProcess
		kind  fault.Kind
		field string
	}{
		{wire.StartProcess{}, fault.InvalidArgument, "argv"},
		{wire.StartProcess{Argv: []string{"no-such-program"}}, fault.NotFound, "argv"},
		{wire.StartProcess{Argv: []string{"/etc/passwd"}}, fault.PermissionDenied, "argv"},
		{wire.StartProcess{Argv: []string{"a\x00b"}}, fault.InvalidArgument, "argv"},
		{wire.StartProcess{Argv: []string{"true"}, Cwd: "nowhere"}, fault.InvalidArgument, "cwd"},
		{
			wire.StartProcess{Argv: []string{"true"}, Env: map[string]string{"A=B": ""}},
			fault.InvalidArgument, "env",
		},
	} {
		_, err := r.StartProcess(r.ctx, uint32(100+i), x.p)
		if e := agenttest.WantKind(t, err, x.kind); e.Field != x.field {
			t.Errorf("%+v: the field at fault is %q", x.p, e.Field)
		}
	}
	if s, err := r.Stats(r.ctx); err != nil || s.Channels != 0 {
		t.Errorf("stats are %+v, %v", s, err)
	}
}

// TestExitComesAfterTheLastOutput runs many short programs and fails when one
// of their bytes is missing at their exit.
func TestExitComesAfterTheLastOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range uint32(100) {
		out, _ := r.program(i+1, "head -c 50000 /dev/zero; echo end; head -c 20000 /dev/zero >&2")
		if len(out) != 70004 {
			t.Fatalf("program %d left %d bytes at its exit", i, len(out))
		}
	}
	r.sink.Mu.Lock()
	defer r.sink.Mu.Unlock()
	if r.sink.Late > 0 {
		t.Errorf("%d frames came after an exit", r.sink.Late)
	}
}

// TestExitDoesNotWaitForTheBackground: a grandchild keeps the pipes open after the exit.
func TestExitDoesNotWaitForTheBackground(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for ch, script := range map[uint32]string{
		1: "sleep 1000 & echo done",
		2: "(while :; do echo y; done) & echo done",
	} {
		start := time.Now()
		out, e := r.program(ch, script)
		if took := time.Since(start); took > 2*time.Minute || e.Code != 0 ||
			!strings.Contains(out, "done") {
			t.Errorf("%q took %s and ended with %+v", script, took, e)
		}
		// Closing an ended channel kills the processes that it left running.
		if err := r.Close(r.ctx, ch); err != nil {
			t.Error(err)
		}
	}
	if n := children(r, ""); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start := func(ch uint32, argv ...string) {
		t.Helper()
		if _, err := r.StartProcess(r.ctx, ch,
			wire.StartProcess{Argv: argv, Stdin: true}); err != nil {
			t.Fatal(err)
		}
	}
	start(1, "cat")
	if err := r.Input(1, []byte("hello "), false); err != nil {
		t.Fatal(err)
	}
	r.sink.Until(t, "the echo", func() bool { return r.sink.Bytes[1] == 6 })
	if err := r.Input(1, []byte("world"), true); err != nil {
		t.Fatal(err)
	}
	if e := r.sink.WaitExit(t, 1); e.Code != 0 || r.sink.Text(1, 0) != "hello world" {
		t.Errorf("cat ended with %+v after %q", e, r.sink.Text(1, 0))
	}
	agenttest.WantKind(t, r.Input(1, []byte("x"), false), fault.NotFound)

	// More data than a pipe and a window hold passes as fast as it is read.
	start(2, "sh", "-c", "sleep 0.3; exec wc -c")
	block := bytes.Repeat([]byte("x"), 100_000)
	for range 50 {
		agenttest.Eventually(t, "there is room", func() bool {
			err := r.Input(2, block, false)
			if err != nil {
				agenttest.WantKind(t, err, fault.Exhausted)
			}
			return err == nil
		})
	}
	if err := r.Input(2, nil, true); err != nil {
		t.Fatal(err)
	}
	r.sink.WaitExit(t, 2)
	if got := strings.TrimSpace(r.sink.Text(2, 0)); got != "5000000" {
		t.Errorf("wc counted %q", got)
	}

	// A program that does not read does not delay others, and the host gets an error.
	start(3, "sleep", "1000")
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = r.Input(3, block, false)
	}
	agenttest.WantKind(t, err, fault.Exhausted)
	if err := r.Ping(r.ctx); err != nil {
		t.Error(err)
	}
	// Without Stdin the input ends at the start.
	if out, _ := r.program(4, "wc -c"); strings.TrimSpace(out) != "0" {
		t.Errorf("wc counted %q", out)
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.StartProcess(r.ctx, 1,
		wire.StartProcess{Argv: []string{
			"sh", "-c",
			"trap 'echo usr' USR1; echo on; while :; do sleep 0.05; done",
		}}); err != nil {
		t.Fatal(err)
	}
	r.sink.Until(t, "the program runs", func() bool { return r.sink.Bytes[1] == 3 })
	if err := r.Signal(r.ctx, 1, "SIGUSR1"); err != nil {
		t.Fatal(err)
	}
	r.sink.Until(t, "the trap", func() bool { return r.sink.Bytes[1] >= 7 })
	agenttest.WantKind(t, r.Signal(r.ctx, 1, "SIGSEGV"), fault.InvalidArgument)
	if err := r.Signal(r.ctx, 1, "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	if e := r.sink.WaitExit(t, 1); e.Reason != wire.ReasonKilled || e.Signal != "SIGKILL" ||
		e.Code != 137 {
		t.Errorf("exit is %+v", e)
	}
	agenttest.WantKind(t, r.Signal(r.ctx, 1, "SIGKILL"), fault.NotFound)
}

// TestCloseEndsTheWholeTree starts processes that try to escape.
func TestCloseEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"children": "sleep 1000 & sleep 1000 & echo on; wait",
		"deaf":     "trap '' HUP TERM INT; sleep 1000 & echo on; while :; do sleep 1; done",
		"daemons":  "setsid sh -c 'setsid sleep 1000 & (trap \"\" HUP TERM; exec setsid -f sleep 1000) & sleep 1000' & echo on; wait",
		"orphans":  "(setsid -f sh -c 'trap \"\" TERM HUP; sleep 1000'); (nohup sleep 1000 >/dev/null 2>&1 &); echo on; wait; sleep 1000",
		"stopped":  "sleep 1000 & kill -STOP $!; echo on; wait",
		"scrubbed": "(env -i setsid -f sleep 1000); echo on; sleep 1000",
		// Its first process does not fork later, because a shell that cannot fork exits.
		"fork storm": "f() { f & f & sleep 0.01; }; echo on; (while :; do f; done) 2>/dev/null & exec sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if name == "fork storm" {
				env = []string{"SANDGATE_PROCS=200"}
			}
			r := newRig(t, env...)
			if _, err := r.StartProcess(r.ctx, 2,
				wire.StartProcess{Argv: []string{"sleep", "1001"}}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.StartProcess(r.ctx, 1,
				wire.StartProcess{Argv: []string{"sh", "-c", script}}); err != nil {
				t.Fatal(err)
			}
			r.sink.Until(t, "the program runs", func() bool { return r.sink.Bytes[1] >= 3 })
			if err := r.Close(r.ctx, 1); err != nil {
				t.Fatal(err)
			}
			r.sink.Mu.Lock()
			e, ended := r.sink.Exits[1]
			r.sink.Mu.Unlock()
			if !ended || e.Reason != wire.ReasonKilled {
				t.Errorf("after the close the exit is %+v, %v", e, ended)
			}
			if n := children(r, ""); n != 1 {
				t.Errorf("%d processes are left, want the other channel's", n)
			}
		})
	}
}

// TestCloseSparesOthers fails when the close of one channel affects another.
func TestCloseSparesOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for ch := range uint32(3) {
		if _, err := r.StartProcess(r.ctx, ch+1,
			wire.StartProcess{Argv: []string{
				"sh", "-c",
				"(setsid -f sleep 1000.5); sleep 1000.5 & echo on; wait",
			}}); err != nil {
			t.Fatal(err)
		}
		r.sink.Until(t, "the program runs", func() bool { return r.sink.Bytes[ch+1] >= 3 })
	}
	agenttest.Eventually(t, "all run", func() bool { return children(r, "1000.5") == 9 })
	if err := r.Close(r.ctx, 2); err != nil {
		t.Fatal(err)
	}
	if n := children(r, "1000.5"); n != 6 {
		t.Errorf("%d processes of the others are left, want 6", n)
	}
	r.kernel(4, "test")
	if err := r.Close(r.ctx, 4); err != nil {
		t.Fatal(err)
	}
	if e := r.sink.WaitExit(t, 4); e.Reason != wire.ReasonKilled {
		t.Errorf("the kernel's exit is %+v", e)
	}
	agenttest.WantKind(t, r.Close(r.ctx, 99), fault.NotFound)
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// Each subshell leaves an orphan that ends on its own.
	out, e := r.program(1, "i=0; while [ $i -lt 300 ]; do (true & ) ; i=$((i+1)); done; echo $i")
	if e.Code != 0 || !strings.Contains(out, "300") {
		t.Fatalf("the program ended with %+v after %q", e, out)
	}
	agenttest.Eventually(t, "all are reaped", func() bool {
		s, err := r.Stats(r.ctx)
		return err == nil && s.Orphans >= 300 && children(r, "") == 0 &&
			len(process.Descendants(process.All(), r.cmd.Process.Pid)) == 0
	})
	if out, _ := r.program(2, "echo alive"); out != "alive\n" {
		t.Errorf("afterwards: %q", out)
	}
}

// TestShortLivedChildren fails when the end of a process is lost because it came before the agent
// had recorded its start.
func TestShortLivedChildren(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 200
	for i := range uint32(n) {
		if _, err := r.StartProcess(r.ctx, i+1,
			wire.StartProcess{Argv: []string{"/bin/true"}}); err != nil {
			t.Fatal(err)
		}
	}
	r.sink.Until(t, "all have ended", func() bool { return len(r.sink.Exits) == n })
}

func TestProcessLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, "SANDGATE_PROCS=700")
	out, _ := r.program(1, "cat /proc/self/limits")
	for _, want := range []string{
		"Max core file size        0                    0 ",
		"Max processes             700                  700 ",
		"Max open files            4096 ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the limits lack %q:\n%s", want, out)
		}
	}
}

// TestEndOfTheWireEndsEverything closes the agent's input while programs run.
func TestEndOfTheWireEndsEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sink.Mu.Lock()
	r.sink.Keep = false
	r.sink.Mu.Unlock()
	for i := range uint32(4) {
		if _, err := r.StartProcess(r.ctx, i+1,
			wire.StartProcess{Argv: []string{
				"sh", "-c",
				"trap '' HUP TERM; setsid -f sleep 1000.75; while :; do echo y; done",
			}}); err != nil {
			t.Fatal(err)
		}
	}
	r.Hold(1, true)
	r.sink.Until(t, "output", func() bool {
		return r.sink.Bytes[1] > 1000 &&
			r.sink.Bytes[4] > 1000
	})
	pid := r.cmd.Process.Pid
	before := len(process.Descendants(process.All(), pid))
	r.in.Close()
	<-r.Done()
	agenttest.Eventually(t, "all are gone",
		func() bool { return len(process.Descendants(process.All(), pid)) == 0 })
	if before < 5 {
		t.Errorf("only %d processes ran", before)
	}
	if n := r.count("1000.75"); n != 0 {
		t.Errorf("%d daemons are left", n)
	}
	agenttest.WantKind(t, r.Ping(r.ctx), fault.SandboxLost)
}

// TestFrameOfOutput checks single frames.
func TestFrameOfOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.program(9, "echo a; sleep 0.1; echo b >&2")
	r.sink.Mu.Lock()
	defer r.sink.Mu.Unlock()
	got := ""
	for _, f := range r.sink.Frames[9] {
		got += fmt.Sprintf("%d/%d/%q ", f.Type, f.Channel, f.Body)
	}
	if want := fmt.Sprintf("%d/9/\"a\\n\" %d/9/\"b\\n\" ", frame.Stdout,
		frame.Stderr); got != want {
		t.Errorf("the frames are %s, want %s", got, want)
	}
}
