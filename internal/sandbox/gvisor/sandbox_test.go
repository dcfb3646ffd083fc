package gvisor

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

func TestBootEchoes(t *testing.T) {
	r := newRuntime(t)
	g := boot(t, r, testSpec())
	if got := g.ask("echo héllo wörld"); got != "héllo wörld" {
		t.Errorf("echo gave %q", got)
	}
	long := strings.Repeat("0123456789abcdef", 50_000) // 800 kB, below the pipe's size
	if got := g.ask("echo %s", long); got != long {
		t.Errorf("a long line came back with %d bytes of %d", len(got), len(long))
	}
	if got := g.ask("host"); got != "sandbox <nil>" {
		t.Errorf("the host name is %q", got)
	}
	if got := g.ask("pid"); got != "1 0" {
		t.Errorf("pid and uid are %q, want 1 0", got)
	}
	if s := g.State(); s != Running {
		t.Errorf("state %v", s)
	}
	select {
	case <-g.Loaded():
	default:
		t.Error("a booted sandbox is not Loaded")
	}
	if e := g.Exit(); e != (Exit{}) {
		t.Errorf("Exit of a running sandbox is %v", e)
	}
	u, err := g.Usage(t.Context())
	if err != nil || u.Memory < miB || u.CPU <= 0 || u.Tasks < 1 {
		t.Errorf("Usage is %+v, %v", u, err)
	}
	destroy(t, g.Sandbox)
	if e := g.Exit(); e.Reason != Destroyed || e.Lost() {
		t.Errorf("Exit after Destroy is %v", e)
	}
	destroy(t, g.Sandbox) // a second time
	if n := r.Live(); n != 0 {
		t.Errorf("%d sandboxes live", n)
	}
	for name, err := range map[string]error{
		"Pause":  g.Pause(t.Context()),
		"Resume": g.Resume(t.Context()),
		"SetCPU": g.SetCPU(t.Context(), 1),
		"Start":  g.Start(t.Context()),
	} {
		if !fault.Is(err, fault.SandboxLost) {
			t.Errorf("%s after Destroy: %v", name, err)
		}
	}
}

// TestPrivileges compares the agent's privileges with the comment on them.
func TestPrivileges(t *testing.T) {
	g := boot(t, newRuntime(t), testSpec())
	status := g.ask("status")
	// CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, KILL 5, SETGID 6, SETUID 7.
	for _, want := range []string{
		"CapEff:\t00000000000000eb", "CapPrm:\t00000000000000eb", "CapBnd:\t00000000000000eb",
		"CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
	} {
		if !strings.Contains(status, want) {
			t.Errorf("/proc/self/status has no %q: %s", want, status)
		}
	}
	// The sentry itself runs as nobody, without capabilities and new privileges, with a filter, and
	// in separate namespaces.
	host := readFile(t, fmt.Sprintf("/proc/%d/status", g.process.pid))
	for _, want := range []string{
		"Uid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000000000",
		"CapPrm:\t0000000000000000",
		"CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(host, want) {
			t.Errorf("the sentry's status has no %q:\n%s", want, host)
		}
	}
	for _, ns := range []string{"user", "net", "mnt", "pid", "ipc", "uts"} {
		mine, theirs := readLink(t, "/proc/self/ns/"+ns), readLink(t,
			fmt.Sprintf("/proc/%d/ns/%s", g.process.pid, ns))
		if mine == theirs {
			t.Errorf("the sentry shares the %s namespace of the host", ns)
		}
	}
}

func TestExits(t *testing.T) {
	r := newRuntime(t)
	for _, test := range []struct {
		name   string
		end    func(g guest)
		want   Exit
		detail string
	}{
		{"status 0", func(g guest) { g.write("exit 0") }, Exit{Reason: Exited}, ""},
		{
			"status 7", func(g guest) { g.ask("stderr last words"); g.write("exit 7") },
			Exit{Reason: Exited, Status: 7},
			"last words",
		},
		{
			"a signal that Go turns into status 2", func(g guest) { g.write("abort") },
			Exit{Reason: Exited, Status: 2},
			"SIGABRT",
		},
		{"end of input", func(g guest) { g.Stdin().Close() }, Exit{Reason: Exited, Status: 3}, ""},
		{
			"SIGKILL to the sentry", func(g guest) { syscall.Kill(g.process.pid, syscall.SIGKILL) },
			Exit{Reason: Killed, Status: -1, Signal: 9},
			"a process outside",
		},
		{
			"SIGQUIT to the sentry, which hands it on",
			func(g guest) { syscall.Kill(g.process.pid, syscall.SIGQUIT) },
			Exit{Reason: Exited, Status: 2},
			"SIGQUIT",
		},
		{
			"Kill", func(g guest) { g.Kill("over the quota") },
			Exit{Reason: Killed, Status: -1, Signal: 9},
			"over the quota",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := boot(t, r, testSpec())
			test.end(g)
			begin := time.Now()
			e := g.awaitEnd()
			if took := time.Since(begin); took > 2*time.Minute {
				t.Errorf("it took %v to learn of the end", took)
			}
			if e.Reason != test.want.Reason || e.Status != test.want.Status ||
				e.Signal != test.want.Signal {
				t.Errorf("Exit is %v (%+v), want %v", e, e, test.want)
			}
			if !strings.Contains(e.Detail, test.detail) {
				t.Errorf("Detail is %q, want %q in it", e.Detail, test.detail)
			}
			if _, err := io.Copy(io.Discard, g.Stdout()); err != nil {
				t.Errorf("what was left of stdout: %v", err)
			}
			if g.State() != Ended {
				t.Errorf("state %v", g.State())
			}
			if _, err := g.Usage(t.Context()); !fault.Is(err, fault.SandboxLost) {
				t.Errorf("Usage of an ended sandbox: %v", err)
			}
			destroy(t, g.Sandbox)
			if after := g.Exit(); after != e {
				t.Errorf("Destroy changed Exit from %v to %v", e, after)
			}
		})
	}
}

// TestMemory fills the guest's memory beyond its cgroup.
func TestMemory(t *testing.T) {
	r := newRuntime(t)
	spec := testSpec()
	spec.Limits.MemoryBytes = 64 * miB
	g := boot(t, r, spec)
	g.write(fmt.Sprintf("alloc %d", spec.Limits.CgroupBytes()+64*miB))
	if e := g.awaitEnd(); e.Reason != Memory {
		t.Errorf("Exit is %v (%+v), want memory", e, e)
	}
	// A sandbox with the same limits is not affected.
	h := boot(t, r, spec)
	g = h
	if got := g.ask("alloc %d", 32*miB); got != "ok" {
		t.Errorf("alloc within the limit: %q", got)
	}
}

func TestInnerLimits(t *testing.T) {
	spec := testSpec()
	g := boot(t, newRuntime(t), spec)
	for _, dir := range []struct {
		path string
		size int64
	}{
		{"/data/f", spec.Limits.OverlayBytes},
		{"/tmp/f", spec.Limits.TmpBytes},
		{"/dev/shm/f", spec.Limits.ShmBytes},
	} {
		got := strings.Fields(g.ask("fill %s %d", dir.path, 64*miB))
		n, _ := strconv.ParseInt(got[0], 10, 64)
		if len(got) < 2 || got[1] != "true" || n > dir.size || n < dir.size*9/10 {
			t.Errorf("%s: %v, want ENOSPC just below %d bytes", dir.path, got, dir.size)
		}
	}
	got := strings.Fields(g.ask("open"))
	if n, _ := strconv.Atoi(got[0]); got[1] != "true" || n > int(spec.Limits.OpenFiles) ||
		n < int(spec.Limits.OpenFiles)-16 {
		t.Errorf("open files: %v, want EMFILE just below %d", got, spec.Limits.OpenFiles)
	}
	if got := g.ask("echo still here"); got != "still here" {
		t.Errorf("after all that the agent says %q", got)
	}
}

// TestProcessLimit starts processes up to the limit. Each also needs host tasks, and the limit of
// those must not be reached first.
func TestProcessLimit(t *testing.T) {
	spec := testSpec()
	spec.Limits.UserProcesses = 64
	g := boot(t, newRuntime(t), spec)
	got := strings.Fields(g.ask("children 100"))
	if n, _ := strconv.Atoi(got[0]); got[1] != "true" || n > 64 {
		t.Errorf("processes: %v, want EAGAIN below 64", got)
	}
	if got := g.ask("echo still here"); got != "still here" {
		t.Errorf("after that the agent says %q", got)
	}
	if c := g.group.read(); c.pidsReached != 0 {
		t.Errorf("the cgroup refused a task: %+v", c)
	}
}

// TestStderrIsBounded floods the agent's standard error.
func TestStderrIsBounded(t *testing.T) {
	g := boot(t, newRuntime(t), testSpec())
	if got := g.ask("flood %d", 4*miB); got != "ok" {
		t.Fatal(got)
	}
	g.ask("stderr the end")
	if n := len(g.Stderr()); n > tailBytes {
		t.Errorf("%d bytes are kept", n)
	}
	destroy(t, g.Sandbox)
	if s := g.Stderr(); !strings.HasSuffix(s, "the end\n") {
		t.Errorf("the last words are %q", s[max(0, len(s)-20):])
	}
}

func TestPauseStopsAndResumes(t *testing.T) {
	g := boot(t, newRuntime(t), testSpec())
	g.ask("tick")
	ticks := func() int {
		n, err := strconv.Atoi(g.ask("ticks"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	await := func(more int) {
		for begin := ticks(); ticks() < begin+more; {
			if g.State() != Running {
				t.Fatal(g.Exit())
			}
		}
	}
	await(10)
	begin := time.Now()
	before := ticks()
	if err := g.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	still := time.Now()
	if g.State() != Paused {
		t.Errorf("state %v", g.State())
	}
	if err := g.Pause(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second Pause: %v", err)
	}
	if u, err := g.Usage(t.Context()); err != nil || u.Memory == 0 {
		t.Errorf("Usage while paused: %+v, %v", u, err)
	}
	// Nothing answers while it is paused. This wait tests that: 300 ticks would pass.
	g.write("ticks")
	if err := g.Stdout().SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if line, err := g.out.ReadString('\n'); err == nil {
		t.Errorf("a paused sandbox said %q", line)
	}
	stood := time.Since(still)
	if err := g.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := strconv.Atoi(g.read())
	if err != nil {
		t.Fatal(err)
	}
	// It ticks every millisecond while it runs, and at most one tick more.
	if awake := time.Since(begin) - stood; int64(after-before) > awake.Milliseconds()+100 {
		t.Errorf("%d ticks passed in %v beside a pause of %v", after-before, awake, stood)
	}
	await(10)
	if err := g.Resume(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second Resume: %v", err)
	}
	// A paused sandbox can be destroyed.
	if err := g.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	destroy(t, g.Sandbox)
}

// TestPauseRace pauses and resumes from several goroutines: no call hangs, and
// each succeeds or is a conflict.
func TestPauseRace(t *testing.T) {
	g := boot(t, newRuntime(t), testSpec())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 25 {
				var err error
				if i%2 == 0 {
					err = g.Pause(t.Context())
				} else {
					err = g.Resume(t.Context())
				}
				if err != nil && !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if g.State() == Paused {
		if err := g.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := g.ask("echo well"); got != "well" {
		t.Errorf("after the race it says %q", got)
	}
}

func TestSetCPU(t *testing.T) {
	g := boot(t, newRuntime(t), testSpec())
	if err := g.SetCPU(t.Context(), 0.25); err != nil {
		t.Fatal(err)
	}
	g.ask("spin")
	begin, err := g.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	time.Sleep(time.Second) // this time is measured
	end, err := g.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if share := (end.CPU - begin.CPU).Seconds() / time.Since(from).Seconds(); share > 0.45 ||
		share < 0.05 {
		t.Errorf("four endless loops took %.2f CPUs, want 0.25", share)
	}
	if err := g.SetCPU(t.Context(), 0); !fault.Is(err, fault.InvalidArgument) {
		t.Errorf("no CPUs at all: %v", err)
	}
}

func TestDestroyDuringBoot(t *testing.T) {
	r := newRuntime(t)
	for i := range 6 {
		s, err := r.Create(t.Context(), testSpec())
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan error, 1)
		go func() { started <- s.Start(t.Context()) }()
		time.Sleep(time.Duration(i) * 5 * time.Millisecond) // at a different moment each time
		destroy(t, s)
		if err := <-started; err != nil && !fault.Is(err, fault.SandboxLost) {
			t.Errorf("Start: %v", err)
		}
	}
}

// TestCancelledBoot cancels a boot at every stage.
func TestCancelledBoot(t *testing.T) {
	r := newRuntime(t)
	for i := range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*12*time.Millisecond)
		s, err := r.Boot(ctx, testSpec())
		cancel()
		switch {
		case err == nil:
			destroy(t, s)
		case !fault.Is(err, fault.DeadlineExceeded):
			t.Errorf("after %d ms: %v", i*12, err)
		}
	}
	if n := r.Live(); n != 0 {
		t.Errorf("%d sandboxes live", n)
	}
}

// TestStuckCall stops the sentry's process, so that no call to it returns. The context releases the
// caller, and Destroy removes the sandbox.
func TestStuckCall(t *testing.T) {
	g := boot(t, newRuntime(t), testSpec())
	if err := syscall.Kill(g.process.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(readFile(t, fmt.Sprintf("/proc/%d/status", g.process.pid)), "State:\tT") {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := g.Pause(ctx); !fault.Is(err, fault.DeadlineExceeded) {
		t.Errorf("Pause: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := g.Resume(ctx); !fault.Is(err, fault.DeadlineExceeded) {
		t.Errorf("Resume, which waits for its turn: %v", err)
	}
	if _, err := g.Usage(t.Context()); err != nil {
		t.Errorf("Usage: %v", err)
	}
	destroy(t, g.Sandbox)
}

func TestRapid(t *testing.T) {
	r := newRuntime(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 10 {
				s, err := r.Boot(t.Context(), testSpec())
				if err != nil {
					t.Error(err)
					return
				}
				destroy(t, s)
			}
		})
	}
	wg.Wait()
}

func TestBadProgram(t *testing.T) {
	r := newRuntime(t)
	spec := testSpec()
	spec.Args = []string{"/no/such/program"}
	if _, err := r.Boot(t.Context(), spec); err == nil ||
		!strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("Boot: %v", err)
	}
	if n := r.Live(); n != 0 {
		t.Errorf("%d sandboxes live", n)
	}
}

func TestClosedRuntime(t *testing.T) {
	r := newRuntime(t)
	g := boot(t, r, testSpec())
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := g.Exit(); e.Reason != Destroyed {
		t.Errorf("Exit is %v", e)
	}
	if _, err := r.Create(t.Context(), testSpec()); !fault.Is(err, fault.Restarting) {
		t.Errorf("Create after Close: %v", err)
	}
}
