package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

func TestKernelStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	info := r.kernel(1, "t")
	if info.Language != "test" || info.PID == 0 || info.Implementation != "test" {
		t.Errorf("info is %+v", info)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", info.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("Uid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d", r.uid),
		"Gid:\t1000\t1000\t1000\t1000", "Groups:\t1000 1073741825", "NoNewPrivs:\t1",
		"CapEff:\t0000000000000000",
	} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the driver's status lacks %q", want)
		}
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", info.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Max core file size        0                    0",
		"Max processes             512                  512",
	} {
		if !strings.Contains(string(limits), want) {
			t.Errorf("the driver's limits lack %q:\n%s", want, limits)
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", info.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", info.PID, fd.Name()))
		if n, _ := strconv.Atoi(fd.Name()); n > 4 && !strings.HasPrefix(to, "anon_inode:") &&
			!strings.HasPrefix(to, "/sys/") {
			t.Errorf("the driver has inherited descriptor %d, %s", n, to)
		}
	}
	if cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", info.PID)); cwd != r.home {
		t.Errorf("the driver's folder is %s", cwd)
	}
	if _, err := r.Kernels.Start(r.ctx, 1, wire.StartKernel{Language: "test"}); !fault.Is(err,
		fault.Conflict) {
		t.Errorf("a second kernel on one channel: %v", err)
	}
	reply, err := r.Kernels.Request(r.ctx, 1, kernel.Request{Op: "complete", ID: 5, Code: "abc"})
	if err != nil || reply.ID != 5 || len(reply.Matches) != 1 || reply.Matches[0].Text != "abc" {
		t.Errorf("complete: %+v, %v", reply, err)
	}
	if _, err := r.Kernels.Request(r.ctx, 1, kernel.Request{Op: "nonsense"}); !fault.Is(err,
		fault.InvalidArgument) {
		t.Errorf("an unknown operation: %v", err)
	}
	if _, err := r.Kernels.Request(r.ctx, 2, kernel.Request{Op: "execute"}); !fault.Is(err,
		fault.NotFound) {
		t.Errorf("a request to no kernel: %v", err)
	}
}

func TestKernelThatDoesNotStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for ch, x := range []struct {
		language string
		kind     fault.Kind
		says     string
	}{
		{"nothing", fault.InvalidArgument, "nothing"},
		{"broken", fault.KernelDied, "the reason"},
		{"missing", fault.NotFound, "/nowhere/driver"},
		{"noframes", fault.KernelDied, "killed"},
	} {
		_, err := r.Kernels.Start(r.ctx, uint32(ch+1), wire.StartKernel{Language: x.language})
		if !fault.Is(err, x.kind) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: got %v (%s), want %s with %q", x.language, err, fault.KindOf(err), x.kind,
				x.says)
		}
	}
	// A driver that never becomes ready is killed when the caller gives up.
	ctx, cancel := context.WithTimeout(r.ctx, 200*time.Millisecond)
	defer cancel()
	_, err := r.Kernels.Start(ctx, 20, wire.StartKernel{Language: "never"})
	agenttest.WantKind(t, err, fault.DeadlineExceeded)
	agenttest.Eventually(t, "no channel is left",
		func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Channels == 0 })
	r.sink.Mu.Lock()
	defer r.sink.Mu.Unlock()
	if len(r.sink.Exits) != 0 {
		t.Errorf("channels that never started have exits: %v", r.sink.Exits)
	}
}

// TestOrderOfPipesAndFrames shows why FlagClear exists: frames and output of C code keep their
// order although they use different descriptors.
func TestOrderOfPipesAndFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	for cell, x := range []struct {
		code string
		want []string
	}{
		{"raw a\nempty\nout b\nraw c\nempty\nout d", []string{"abcd"}},
		{"out a\nraw b", []string{"ab"}},
		{"raw a\nframe b", []string{"ab"}},
		// Two pipes have no order between them: poll checks one after the other.
		{"raw a\nrawerr b\nout c", []string{"abc", "bac"}},
	} {
		for i := range 50 {
			n := uint32(cell*50 + i + 1)
			if got, _ := r.run(1, n, x.code); !slices.Contains(x.want, got) {
				t.Fatalf("%q printed %q, want one of %q", x.code, got, x.want)
			}
		}
	}
	const turns = 3000
	var want strings.Builder
	for i := range turns {
		fmt.Fprintf(&want, "f%d p%d ", i, i)
	}
	got, _ := r.run(1, 900, "mix "+strconv.Itoa(turns))
	if got != want.String() {
		i := 0
		for i < len(got) && i < want.Len() && got[i] == want.String()[i] {
			i++
		}
		t.Errorf("frames and pipes changed places at byte %d: %q", i,
			got[max(0, i-20):min(len(got), i+20)])
	}
}

// TestPipesAreDrainedBeforeReply fails when text from a pipe can arrive after the reply of its
// cell, and so become output of the next cell.
func TestPipesAreDrainedBeforeReply(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	for i := range uint32(200) {
		got, _ := r.run(1, i+1, fmt.Sprintf("raw %d\nrawerr !", i))
		if got != fmt.Sprintf("%d!", i) && got != fmt.Sprintf("!%d", i) {
			// two pipes have no order between them
			t.Fatalf("cell %d has %q when its reply comes", i+1, got)
		}
	}
	// Output of a child keeps the cell's number after the cell has ended.
	pid, _ := r.run(1, 500, "bg until test -e ended; do sleep 0.01; done; echo late")
	if err := os.WriteFile(filepath.Join(r.home, "ended"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.sink.Until(t, "the late text", func() bool {
		for _, f := range r.sink.Frames[1] {
			if f.Cell == 500 && string(f.Body) == "late\n" {
				return true
			}
		}
		return false
	})
	if _, err := strconv.Atoi(pid); err != nil {
		t.Error(err)
	}
}

func TestLargeMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	for i, n := range []int{1 << 20, 3 << 20, 8<<20 - 64} {
		r.run(1, uint32(i+1), "raw x\nbig "+strconv.Itoa(n)+"\nraw y")
		r.sink.Mu.Lock()
		var seen []string
		for _, f := range r.sink.Frames[1] {
			if f.Cell == uint32(i+1) {
				if f.Type == frame.Message {
					seen = append(seen, strconv.Itoa(len(f.Body)))
				} else {
					seen = append(seen, string(f.Body))
				}
			}
			if f.Channel != 1 || f.Flags != 0 {
				t.Errorf("a frame has channel %d and flags %d", f.Channel, f.Flags)
			}
		}
		r.sink.Frames[1] = nil
		r.sink.Mu.Unlock()
		// x is in a pipe when the message is made that reports it as clear. It is read before or
		// after the message, y after both.
		want := strconv.Itoa(n + 15)
		if len(seen) == 0 || !strings.Contains(strings.Join(seen, " "), want) ||
			!strings.HasSuffix(seen[len(seen)-1], "y") {
			t.Errorf("a message of %d bytes gave %v", n, seen)
		}
	}
}

func TestFloodIsHeldByTheWindow(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"flood", "rawflood"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.kernel(1, "test")
			r.kernel(2, "test")
			r.sink.Mu.Lock()
			r.sink.Keep = false
			r.sink.Mu.Unlock()
			r.Hold(1, true)
			const total = 50_000_000
			done := make(chan error, 1)
			go func() {
				_, err := r.Kernels.Request(r.ctx, 1,
					kernel.Request{Op: "execute", Cell: 1, Code: how + " " + strconv.Itoa(total)})
				done <- err
			}()
			agenttest.Eventually(t, "the channel stalls",
				func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Stalls > 0 })
			if n := r.sink.Size(1); n > wire.Window {
				t.Errorf("%d bytes came without an Ack, the window has %d", n, wire.Window)
			}
			// Other kernels continue meanwhile. The flood itself continues only after an Ack.
			if _, err := r.Kernels.Request(r.ctx, 2,
				kernel.Request{Op: "execute", Cell: 1, Code: "out x"}); err != nil {
				t.Fatal(err)
			}
			before := rss(t, r.cmd.Process.Pid)
			r.Hold(1, false)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := r.sink.Size(1); n != total {
				t.Errorf("%d bytes came, want %d", n, total)
			}
			if grown := rss(t, r.cmd.Process.Pid) - before; grown > 32<<10 {
				t.Errorf("the agent grew by %d KiB", grown)
			}
		})
	}
}

// rss is a process's resident memory, in KiB.
func rss(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for ch, x := range []struct{ language, want string }{
		{"test", "interrupt"},
		{"message", "user defined signal 1 for cell 1"},
	} {
		ch := uint32(ch + 1)
		r.kernel(ch, x.language)
		done := make(chan message.Reply, 1)
		go func() {
			reply, err := r.Kernels.Request(r.ctx, ch,
				kernel.Request{Op: "execute", Cell: 1, Code: "out go\nsleep"})
			if err != nil {
				t.Error(err)
			}
			done <- reply
		}()
		r.sink.Until(t, "the cell runs", func() bool { return r.sink.Bytes[ch] > 0 })
		if err := r.Interrupt(r.ctx, ch); err != nil {
			t.Fatal(err)
		}
		if reply := <-done; reply.EValue != "interrupted by "+x.want {
			t.Errorf("%s: the cell answers %+v", x.language, reply)
		}
		// A child in the foreground is interrupted in both ways.
		go func() {
			reply, err := r.Kernels.Request(r.ctx, ch,
				kernel.Request{Op: "execute", Cell: 2, Code: "sh echo on; exec sleep 1000"})
			if err != nil {
				t.Error(err)
			}
			done <- reply
		}()
		r.sink.Until(t, "the child runs", func() bool { return r.sink.Bytes[ch] > 4 })
		if err := r.Interrupt(r.ctx, ch); err != nil {
			t.Fatal(err)
		}
		if reply := <-done; reply.EValue != "signal: interrupt" {
			t.Errorf("%s: the child ends with %+v", x.language, reply)
		}
		r.run(ch, 3, "out alive")
	}
}

// TestInterruptNamesItsCell: an interrupt directly after its execute applies to it, and carries its
// number.
func TestInterruptNamesItsCell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "message")
	for cell := uint32(1); cell < 20; cell += 2 {
		interrupted := make(chan error, 1)
		reply, err := r.Kernels.Request(r.ctx, 1, kernel.Request{
			Op: "execute", Cell: cell,
			Code: "sleep", Sent: func() {
				go func() { interrupted <- r.Interrupt(r.ctx, 1) }()
			},
		})
		if err := errors.Join(err, <-interrupted); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("interrupted by user defined signal 1 for cell %d",
			cell); reply.EValue != want {
			t.Fatalf("the cell answers %+v, want %q", reply, want)
		}
		r.run(1, cell+1, "out alive")
	}
}

func TestInterruptDuringFlood(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	r.sink.Mu.Lock()
	r.sink.Keep = false
	r.sink.Mu.Unlock()
	done := make(chan message.Reply, 1)
	go func() {
		reply, err := r.Kernels.Request(r.ctx, 1,
			kernel.Request{Op: "execute", Cell: 1, Code: "flood -1"})
		if err != nil {
			t.Error(err)
		}
		done <- reply
	}()
	r.sink.Until(t, "the flood", func() bool { return r.sink.Bytes[1] > 8<<20 })
	start := time.Now()
	if err := r.Interrupt(r.ctx, 1); err != nil {
		t.Fatal(err)
	}
	if reply := <-done; reply.EValue != "interrupted" {
		t.Errorf("the flood answers %+v", reply)
	}
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("the interrupt took %s", took)
	}
}

func TestInputRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	done := make(chan string, 1)
	go func() { s, _ := r.run(1, 1, "input"); done <- s }()
	r.sink.Until(t, "the request for input", func() bool { return r.sink.Bytes[1] > 0 })
	if err := r.Kernels.Notify(1, kernel.Request{Op: "input", Value: "forty-two"}); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got != "forty-two" {
		t.Errorf("the cell read %q", got)
	}
}

func TestKernelDiesInACell(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		code, says string
		exit       wire.Exit
	}{
		{
			"raw last words\nkill", "SIGKILL",
			wire.Exit{Code: 137, Signal: "SIGKILL", Reason: wire.ReasonSignaled},
		},
		{"raw last words\nexit 3", "status 3", wire.Exit{Code: 3, Reason: wire.ReasonExited}},
		{"raw last words\nexit 0", "exited", wire.Exit{Code: 0, Reason: wire.ReasonExited}},
		{
			"raw last words\ngarbage", "8 MiB",
			wire.Exit{Code: 137, Signal: "SIGKILL", Reason: wire.ReasonProtocol},
		},
		{
			"raw last words\nhuge", "8 MiB",
			wire.Exit{Code: 137, Signal: "SIGKILL", Reason: wire.ReasonProtocol},
		},
		{
			"raw last words\nchannel", "not a frame",
			wire.Exit{Code: 137, Signal: "SIGKILL", Reason: wire.ReasonProtocol},
		},
		{
			"raw last words\nbadjson", "control",
			wire.Exit{Code: 137, Signal: "SIGKILL", Reason: wire.ReasonProtocol},
		},
		{
			"raw last words\nclose", "descriptor",
			wire.Exit{Code: 137, Signal: "SIGKILL", Reason: wire.ReasonProtocol},
		},
	} {
		t.Run(x.code, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.kernel(1, "test")
			r.run(1, 1, "bg exec sleep 1234.5678")
			_, err := r.Kernels.Request(r.ctx, 1,
				kernel.Request{Op: "execute", Cell: 2, Code: x.code})
			if e := agenttest.WantKind(t, err, fault.KernelDied); !strings.Contains(e.Message,
				x.says) {
				t.Errorf("the error says %q, want %q in it", e.Message, x.says)
			}
			if got := r.sink.Text(1, 2); got != "last words" {
				t.Errorf("the cell left %q", got)
			}
			e := r.sink.WaitExit(t, 1)
			if e.Message = ""; e != x.exit {
				t.Errorf("exit is %+v, want %+v", e, x.exit)
			}
			// The number is free, and the dead kernel's processes have ended.
			r.kernel(1, "test")
			if s, err := r.Stats(r.ctx); err != nil || s.Channels != 1 {
				t.Errorf("stats are %+v, %v", s, err)
			}
			agenttest.Eventually(t, "the dead kernel's child is gone",
				func() bool { return children(r, "1234.5678") == 0 })
		})
	}
}

// children counts the agent's descendants with a mark in their command line. It does not count
// ended processes that the agent has not collected yet: a close waits for the end of orphans, but
// not until they are collected.
func children(r *rig, mark string) int {
	n := 0
	list := process.All()
	ours := process.Descendants(list, r.cmd.Process.Pid)
	for _, p := range list {
		if p.Zombie || !ours[p.PID] {
			continue
		}
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); strings.Contains(string(b),
			mark) {
			n++
		}
	}
	return n
}

func TestReseed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	r.kernel(2, "message")
	seed := strings.Repeat("ab", 32)
	if err := r.Reseed(r.ctx, wire.Reseed{
		Seed: seed, Hostname: "box-7",
		Env: map[string]string{"COLOUR": "green"},
	}); err != nil {
		t.Fatal(err)
	}
	if name, err := os.ReadFile(filepath.Join(r.root, "hostname")); err != nil ||
		string(name) != "box-7" {
		t.Errorf("the host name is %q, %v", name, err)
	}
	if id, err := os.ReadFile(filepath.Join(r.root, "machine-id")); err != nil || len(id) != 33 ||
		strings.Contains(string(id), "abab") {
		t.Errorf("the machine's id is %q, %v", id, err)
	}
	a, _ := r.run(1, 1, "env COLOUR")
	b, _ := r.run(2, 1, "env COLOUR")
	if a == b || !strings.HasPrefix(a, ",green,") || len(a) != len(",green,")+64 {
		t.Errorf("the kernels were reseeded with %q and %q", a, b)
	}
	r.kernel(3, "test")
	if c, _ := r.run(3, 1, "env COLOUR"); c != "green,," {
		t.Errorf("a later kernel has %q", c)
	}
	if out, _ := r.program(4, "echo $COLOUR $HOME $USER $LANG; pwd"); out != "green "+r.home+
		" user C.UTF-8\n"+r.home+"\n" {
		t.Errorf("a later process has %q", out)
	}
}

// TestTimedRequest: the agent reports how long a driver took when the request asks for it, and does
// not pass this wish to the driver.
func TestTimedRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	var took time.Duration
	began := time.Now()
	reply, err := r.Kernels.Request(r.ctx, 1, kernel.Request{
		Op: "complete", ID: 1, Code: "abc",
		Took: func(d time.Duration) { took = d },
	})
	if err != nil || len(reply.Matches) == 0 || reply.Matches[0].Text != "abc" {
		t.Fatalf("%+v %v", reply, err)
	}
	if took <= 0 || took > time.Since(began) {
		t.Errorf("it took %s", took)
	}
}

// TestUntimedRequest: the agent measures nothing unless the request asks for it.
func TestUntimedRequest(t *testing.T) {
	t.Parallel()
	r := newRawRig(t)
	r.send(wire.Request{
		ID: 1, Op: wire.OpKernelStart, Channel: 1,
		Params: json.RawMessage(`{"language":"test"}`),
	})
	r.answer(1)
	r.send(wire.Request{
		ID: 2, Op: wire.OpKernelRequest, Channel: 1,
		Params: json.RawMessage(`{"op":"complete","code":"abc"}`),
	})
	if answer := r.answer(2); answer.TookUS != 0 || !strings.Contains(string(answer.Result),
		`"abc"`) {
		t.Errorf("a request that is not timed: %+v", answer)
	}
}

func TestRequestsRunSideBySide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			code := strconv.Itoa(i)
			reply, err := r.Kernels.Request(r.ctx, 1, kernel.Request{
				Op: "complete", ID: uint64(i),
				Code: code,
			})
			if err != nil || reply.ID != uint64(i) || reply.Matches[0].Text != code {
				t.Errorf("request %d got %+v, %v", i, reply, err)
			}
		}()
	}
	wg.Wait()
}

// TestUserCannotHarmTheAgent tries, as the user, to harm the agent.
func TestUserCannotHarmTheAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pid := strconv.Itoa(r.cmd.Process.Pid)
	out, _ := r.program(1, `for s in KILL TERM STOP INT; do kill -$s `+pid+
		` 2>/dev/null && echo killed; done
for fd in 0 1 2 3 4 5 6 7 8; do (echo x > /proc/`+pid+`/fd/$fd) 2>/dev/null && echo wrote $fd; done
cat /proc/`+pid+`/mem /proc/`+pid+`/environ 2>/dev/null && echo read; ls /proc/$$/fd | tr '\n' ' '`)
	if strings.Contains(out, "killed") || strings.Contains(out, "wrote") ||
		strings.Contains(out, "read") {
		t.Errorf("the user harmed the agent: %q", out)
	}
	if err := r.Ping(r.ctx); err != nil {
		t.Error(err)
	}
}
