package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// waitLimit is how long a test waits for an expected event.
const waitLimit = 2 * time.Minute

// memoryLog stores the messages of a queue and wakes those who wait for one.
type memoryLog struct {
	mu    sync.Mutex // guards lines
	cond  *sync.Cond
	lines []string
}

func newMemoryLog() *memoryLog {
	l := &memoryLog{}
	l.cond = sync.NewCond(&l.mu)
	return l
}

func (l *memoryLog) Append(kind frame.Kind, cell uint32, payload []byte) (int64, error) {
	var line string
	switch kind {
	case frame.KindMessage:
		var m message.Message
		if err := json.Unmarshal(payload, &m); err != nil {
			panic(err)
		}
		var c struct {
			Key    string `json:"key"`
			Status string `json:"status"`
			State  string `json:"execution_state"`
			EName  string `json:"ename"`
			Count  int    `json:"execution_count"`
		}
		if err := json.Unmarshal(m.Content, &c); err != nil {
			panic(err)
		}
		switch m.Type {
		case message.ExecuteInputType:
			line = fmt.Sprintf("%d input %s [%d]", cell, c.Key, c.Count)
		case message.ExecuteReplyType:
			line = strings.TrimSpace(fmt.Sprintf("%d reply %s %s %s", cell, c.Key, c.Status,
				c.EName))
		case message.StatusType:
			line = fmt.Sprintf("%d %s", cell, c.State)
		case message.ErrorType:
			line = fmt.Sprintf("%d error %s", cell, c.EName)
		}
	case frame.KindEvent:
		var e struct{ Event, Reason string }
		if err := json.Unmarshal(payload, &e); err != nil {
			panic(err)
		}
		line = strings.TrimSpace(fmt.Sprintf("%d %s %s", cell, e.Event, e.Reason))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	l.cond.Broadcast()
	return 0, nil
}

// all returns the present content of the log.
func (l *memoryLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// await waits until a line is in the log.
func (l *memoryLog) await(t *testing.T, line string) {
	t.Helper()
	l.awaitCount(t, line, 1)
}

func (l *memoryLog) awaitCount(t *testing.T, line string, n int) {
	t.Helper()
	l.awaitLines(t, n, line)
}

func (l *memoryLog) awaitAny(t *testing.T, lines ...string) {
	t.Helper()
	l.awaitLines(t, 1, lines...)
}

func (l *memoryLog) awaitLines(t *testing.T, n int, lines ...string) {
	t.Helper()
	late := time.AfterFunc(waitLimit, func() { l.cond.Broadcast() })
	defer late.Stop()
	begin := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		seen := 0
		for _, have := range l.lines {
			if slices.Contains(lines, have) {
				seen++
			}
		}
		if seen >= n {
			return
		}
		if time.Since(begin) >= waitLimit {
			t.Fatalf("none of %q is in the log:\n%s", lines, strings.Join(l.lines, "\n"))
		}
		l.cond.Wait()
	}
}

func (l *memoryLog) want(t *testing.T, lines ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !reflect.DeepEqual(l.lines, lines) {
		t.Errorf("the log has\n\t%s\nwant\n\t%s", strings.Join(l.lines, "\n\t"),
			strings.Join(lines, "\n\t"))
	}
}

// fakeKernel runs these codes: "ok", "fail", "hang" (until an interrupt, then an error), "stubborn"
// (until the second interrupt), "deaf" (until it is killed), "die" (with reason memory), "ask".
type fakeKernel struct {
	t       *testing.T
	queue   func() *Queue
	mu      sync.Mutex // guards all fields below
	count   int
	dead    chan struct{}
	over    bool
	stop    chan struct{}
	input   chan kernel.Request
	asked   []kernel.Request
	kills   int
	stubbed bool          // Kill fails
	asking  chan struct{} // closed when "late" is about to be sent
	send    chan struct{} // allows it to be sent
}

func newFake(t *testing.T) *fakeKernel {
	return &fakeKernel{
		t: t, dead: make(chan struct{}), stop: make(chan struct{}, 8),
		input:  make(chan kernel.Request, 8),
		asking: make(chan struct{}), send: make(chan struct{}),
	}
}

func (f *fakeKernel) Request(ctx context.Context, r kernel.Request) (message.Reply, error) {
	f.mu.Lock()
	f.asked = append(f.asked, r)
	f.mu.Unlock()
	if r.Code == "late" {
		close(f.asking)
		<-f.send
		r.Code = "hang"
	}
	if r.Sent != nil {
		r.Sent()
	}
	gone := fault.New(fault.KernelDied, "fake", "the kernel is gone")
	wait := func(deaf bool) (message.Reply, error) {
		stop := f.stop
		if deaf {
			stop = nil
		}
		select {
		case <-stop:
			return message.Reply{Status: "error", EName: "KeyboardInterrupt"}, nil
		case <-f.dead:
			return message.Reply{}, gone
		case <-ctx.Done():
			return message.Reply{}, ctx.Err()
		}
	}
	if r.Op != "execute" {
		return message.Reply{Status: "ok", IsComplete: "complete"}, nil
	}
	if !r.Silent {
		f.mu.Lock()
		f.count++
		f.mu.Unlock()
	}
	switch r.Code {
	case "fail":
		return message.Reply{Status: "error", EName: "ValueError", Count: f.count}, nil
	case "stubborn":
		if reply, err := wait(false); err != nil {
			return reply, err
		}
		return wait(false)
	case "hang":
		return wait(false)
	case "deaf":
		return wait(true)
	case "die":
		f.end(Death{Reason: "memory", Message: "out of memory"})
		return message.Reply{}, gone
	case "refuse":
		return message.Reply{}, fault.New(fault.TooLarge, "fake", "too large")
	case "ask":
		body := []byte(`{"msg_type":"input_request","content":{"prompt":"? ","password":false}}`)
		if f.queue().Observe(r.Cell, body) != nil {
			_, _ = f.queue().out.log.Append(frame.KindEvent, r.Cell, []byte(`{"event":"asked"}`))
		}
		select {
		case in := <-f.input:
			if in.EOF {
				return message.Reply{Status: "error", EName: "EOFError", Count: f.count}, nil
			}
			return message.Reply{Status: "ok", EValue: in.Value, Count: f.count}, nil
		case <-ctx.Done():
			return message.Reply{}, ctx.Err()
		}
	}
	return message.Reply{Status: "ok", Count: f.count}, nil
}

func (f *fakeKernel) end(how Death) {
	f.mu.Lock()
	first := !f.over
	f.over = true
	f.mu.Unlock()
	if first {
		// before a request fails, after which the queue waits for it, but not indefinitely
		f.queue().Died(f, how)
		close(f.dead)
	}
}

func (f *fakeKernel) Notify(r kernel.Request) error   { f.input <- r; return nil }
func (f *fakeKernel) Interrupt(context.Context) error { f.stop <- struct{}{}; return nil }
func (f *fakeKernel) Kill(context.Context) error {
	f.mu.Lock()
	f.kills++
	stubbed := f.stubbed
	f.mu.Unlock()
	if stubbed {
		return errors.New("it does not die")
	}
	f.end(Death{Reason: "signaled", Message: "SIGKILL"})
	return nil
}

// bench is a queue whose first kernel already runs.
type bench struct {
	*Queue
	log     *memoryLog
	mu      sync.Mutex // guards all fields below
	kernels []*fakeKernel
	refuse  error
}

func newBench(t *testing.T) *bench {
	b := &bench{log: newMemoryLog()}
	made := make(chan struct{})
	make1 := func() *fakeKernel {
		f := newFake(t)
		f.queue = func() *Queue { <-made; return b.Queue }
		b.mu.Lock()
		defer b.mu.Unlock()
		b.kernels = append(b.kernels, f)
		return f
	}
	b.Queue = New(Options{
		Log: b.log, Driver: make1(), Info: message.Info{Language: "fake"},
		Grace: 50 * time.Millisecond,
		Start: func(context.Context) (Driver, message.Info, error) {
			b.mu.Lock()
			err := b.refuse
			b.mu.Unlock()
			if err != nil {
				return nil, message.Info{}, err
			}
			return make1(), message.Info{Language: "fake"}, nil
		},
	})
	close(made)
	t.Cleanup(func() {
		b.Close(Death{Reason: "closed", Message: "the test is over"})
		for end := time.Now().Add(waitLimit); ; runtime.Gosched() {
			buf := make([]byte, 1<<20)
			stacks := string(buf[:runtime.Stack(buf, true)])
			if !strings.Contains(stacks, "kernel.(*Queue)") {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("goroutines remain:\n%s", stacks)
			}
		}
	})
	return b
}

func (b *bench) submit(t *testing.T, code string, more ...func(*protocol.Execute)) uint32 {
	t.Helper()
	e := protocol.Execute{Key: "k-" + code, Code: code}
	for _, f := range more {
		f(&e)
	}
	q, err := b.Submit(e)
	if err != nil {
		t.Fatalf("submit %s: %v", code, err)
	}
	return q.Cell
}

func key(k string) func(*protocol.Execute) { return func(e *protocol.Execute) { e.Key = k } }

func TestQueueOrder(t *testing.T) {
	b := newBench(t)
	b.submit(t, "ok", key("a"))
	b.submit(t, "ok", key("b"), func(e *protocol.Execute) { e.Silent = true })
	b.submit(t, "ok", key("c"))
	b.log.await(t, "3 idle")
	b.log.want(t,
		"1 input a [1]", "1 busy", "1 reply a ok", "1 idle",
		"2 input b [0]", "2 busy", "2 reply b ok", "2 idle",
		"3 input c [2]", "3 busy", "3 reply c ok", "3 idle",
	)
}

func TestQueueKeys(t *testing.T) {
	b := newBench(t)
	first := b.submit(t, "ok", key("same"))
	again, err := b.Submit(protocol.Execute{Key: "same", Code: "fail"})
	if err != nil || again.Cell != first || !again.Repeated {
		t.Errorf("a repeated key: %+v, %v; want cell %d, repeated", again, err, first)
	}
	// Without a key an execute is never a repetition.
	if one, two := b.submit(t, "ok", key("")), b.submit(t, "ok", key("")); one == two {
		t.Error("two executes without a key are one cell")
	}
	b.log.await(t, "3 idle")

	var r idempotencyKeys
	for i := range MaxKeys + 5 {
		r.add(fmt.Sprint(i), uint32(i))
	}
	for i, want := range map[int]bool{0: false, 4: false, 5: true, MaxKeys + 4: true} {
		if cell, ok := r.cell(fmt.Sprint(i)); ok != want || ok && cell != uint32(i) {
			t.Errorf("key %d is remembered: %v as %d, want %v", i, ok, cell, want)
		}
	}
	if len(r.cells) != MaxKeys || len(r.order) != MaxKeys {
		t.Errorf("%d and %d keys are kept, want %d", len(r.cells), len(r.order), MaxKeys)
	}
}

func TestQueueFailureAborts(t *testing.T) {
	b := newBench(t)
	b.submit(t, "hang")
	b.log.await(t, "1 busy")
	b.submit(t, "fail", func(e *protocol.Execute) { e.KeepGoing = true })
	b.submit(t, "fail", key("x"))
	b.submit(t, "ok", key("y"))
	b.mu.Lock()
	k := b.kernels[0]
	b.mu.Unlock()
	// With KeepGoing the first cell's end does not abort the others.
	b.Queue.mu.Lock()
	b.Queue.running.KeepGoing = true
	b.Queue.mu.Unlock()
	k.stop <- struct{}{}
	b.log.await(t, "4 reply y aborted")
	b.log.want(t,
		"1 input k-hang [1]", "1 busy", "1 reply k-hang error KeyboardInterrupt", "1 idle",
		"2 input k-fail [2]", "2 busy", "2 reply k-fail error ValueError", "2 idle",
		"3 input x [3]", "3 busy", "3 reply x error ValueError", "3 idle", "4 reply y aborted",
	)
	b.submit(t, "ok", key("z"))
	b.log.await(t, "5 reply z ok")
}

func TestQueueInterrupt(t *testing.T) {
	b := newBench(t)
	if err := b.Interrupt(context.Background(), 0, 0); err != nil {
		t.Errorf("an interrupt of an idle kernel: %v", err)
	}
	b.submit(t, "hang")
	b.log.await(t, "1 busy")
	b.submit(t, "ok", key("waits"))
	if err := b.Interrupt(context.Background(), 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	b.log.await(t, "1 idle")
	b.log.want(t, "1 input k-hang [1]", "1 busy", "2 reply waits aborted",
		"1 reply k-hang error KeyboardInterrupt", "1 idle")
	b.submit(t, "ok", key("next"))
	b.log.await(t, "3 reply next ok")
}

// TestQueueInterruptCell: an interrupt of one cell does not affect the cells of others.
func TestQueueInterruptCell(t *testing.T) {
	b := newBench(t)
	b.submit(t, "hang", func(e *protocol.Execute) { e.KeepGoing = true })
	b.log.await(t, "1 busy")
	b.submit(t, "ok", key("mine"))
	b.submit(t, "ok", key("theirs"))
	for _, cell := range []uint32{2, 2, 77} { // waiting, ended, unknown
		if err := b.Interrupt(t.Context(), cell, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	b.log.await(t, "2 reply mine aborted")
	if err := b.Interrupt(t.Context(), 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	b.log.await(t, "3 idle")
	b.log.want(t, "1 input k-hang [1]", "1 busy", "2 reply mine aborted",
		"1 reply k-hang error KeyboardInterrupt", "1 idle",
		"3 input theirs [2]", "3 busy", "3 reply theirs ok", "3 idle")
}

// TestQueueInterruptOvertakes: an interrupt does not reach the kernel before the cell that it
// should stop.
func TestQueueInterruptOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.submit(t, "ok")
		b.log.await(t, "1 idle")
		k := b.kernels[0]
		b.submit(t, "late")
		<-k.asking
		done := make(chan error, 1)
		go func() { done <- b.Interrupt(t.Context(), 0, 0) }()
		synctest.Wait()
		if len(k.stop) != 0 {
			t.Error("the interrupt was there before its cell")
		}
		close(k.send)
		if err := <-done; err != nil {
			t.Error(err)
		}
		b.log.await(t, "2 idle")
		b.log.want(t, "1 input k-ok [1]", "1 busy", "1 reply k-ok ok", "1 idle",
			"2 input k-late [2]", "2 busy", "2 reply k-late error KeyboardInterrupt", "2 idle")
	})
}

func TestQueueInterruptThenKill(t *testing.T) {
	b := newBench(t)
	b.submit(t, "deaf")
	b.log.await(t, "1 busy")
	if err := b.Interrupt(context.Background(), 0, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	b.log.await(t, "0 idle")
	b.log.want(t, "1 input k-deaf [1]", "1 busy", "1 error KernelDied",
		"1 reply k-deaf error KernelDied", "1 idle",
		"0 kernel_died killed", "0 dead", "0 restarting", "0 kernel_restarted killed", "0 idle")
	b.submit(t, "ok")
	b.log.await(t, "2 reply k-ok ok")
}

// TestQueueInterruptsTwice: code that swallows an interrupt gets a second one before the variables
// are lost.
func TestQueueInterruptsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.submit(t, "stubborn", func(e *protocol.Execute) { e.TimeoutMS = 10 })
		b.log.await(t, "1 idle")
		b.log.want(t, "1 input k-stubborn [1]", "1 busy", "1 cell_timeout",
			"1 reply k-stubborn error KeyboardInterrupt", "1 idle")
		b.submit(t, "stubborn", key("by hand"))
		b.log.await(t, "2 busy")
		if err := b.Interrupt(t.Context(), 0, time.Second); err != nil {
			t.Fatal(err)
		}
		b.log.await(t, "2 idle")
		if len(b.kernels) != 1 || b.kernels[0].kills != 0 {
			t.Errorf("%d kernels, %d kills", len(b.kernels), b.kernels[0].kills)
		}
	})
}

func TestQueueTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// the grace of 50 ms must not end because the machine is busy
		b := newBench(t)
		soon := func(e *protocol.Execute) { e.TimeoutMS = 10 }
		b.submit(t, "hang", soon)
		b.log.await(t, "1 idle")
		b.log.want(t, "1 input k-hang [1]", "1 busy", "1 cell_timeout",
			"1 reply k-hang error KeyboardInterrupt", "1 idle")
		b.submit(t, "deaf", soon)
		b.log.await(t, "0 kernel_restarted killed")
		b.submit(t, "ok")
		b.log.await(t, "3 reply k-ok ok")
	})
}

// TestForcedStop checks the message of a kernel that is killed with the shortest grace.
func TestForcedStop(t *testing.T) {
	for grace, want := range map[time.Duration]string{
		time.Millisecond: "the kernel was killed, because the cell was stopped by force",
		time.Second:      "the kernel was killed: the cell did not end within 1s of the interrupt",
	} {
		f := &follower{ctx: t.Context()}
		f.setGrace(grace, "the interrupt")
		if f.late != want {
			t.Errorf("%s: %q, want %q", grace, f.late, want)
		}
	}
}

func TestQueueKernelDies(t *testing.T) {
	b := newBench(t)
	b.submit(t, "hang")
	b.log.await(t, "1 busy")
	b.submit(t, "ok", key("waits"))
	b.mu.Lock()
	k := b.kernels[0]
	b.mu.Unlock()
	k.end(Death{Reason: "memory", Message: "out of memory"})
	b.log.await(t, "0 dead")
	b.log.want(t, "1 input k-hang [1]", "1 busy", "1 error KernelDied",
		"1 reply k-hang error KernelDied", "1 idle",
		"2 reply waits aborted", "0 kernel_died memory", "0 dead")
	// The queue releases the cell after it has written the log.
	testenv.Eventually(t, "no work remains", func() bool { return !b.State().Work })
	if s := b.State(); s.Name != "dead" {
		t.Errorf("state %+v, want dead", s)
	}
	if _, err := b.Ask(context.Background(), kernel.Request{Op: "complete"}); !fault.Is(err,
		fault.Conflict) {
		t.Errorf("a completion by a dead kernel: %v, want conflict", err)
	}
	// The next execute starts the kernel again. Cell numbers continue, execution counts begin
	// again.
	b.submit(t, "ok", key("next"))
	b.log.await(t, "3 idle")
	b.log.await(t, "0 kernel_restarted memory")
	b.log.await(t, "3 input next [1]")
	// A repeated report about the old kernel's end has no effect.
	k.queue().Died(k, Death{Reason: "again"})
	b.submit(t, "die")
	b.log.await(t, "4 reply k-die error KernelDied")
}

func TestQueueKernelDiesIdle(t *testing.T) {
	b := newBench(t)
	b.mu.Lock()
	k := b.kernels[0]
	b.mu.Unlock()
	k.end(Death{Reason: "exited"})
	b.log.await(t, "0 dead")
	b.mu.Lock()
	b.refuse = fault.New(fault.Unsupported, "fake", "no such driver")
	b.mu.Unlock()
	b.submit(t, "ok", key("a"))
	b.log.await(t, "1 reply a error KernelDied")
	b.log.want(t, "0 kernel_died exited", "0 dead", "0 restarting", "0 kernel_died start", "0 dead",
		"1 error KernelDied", "1 reply a error KernelDied")
	b.mu.Lock()
	b.refuse = nil
	b.mu.Unlock()
	b.submit(t, "ok", key("b"))
	b.log.await(t, "2 reply b ok")
}

func TestQueueRestart(t *testing.T) {
	b := newBench(t)
	if err := b.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.log.want(t, "0 kernel_died restart", "0 dead", "0 restarting", "0 kernel_restarted restart",
		"0 idle")
	b.submit(t, "deaf")
	b.log.await(t, "1 busy")
	b.submit(t, "ok", key("waits"))
	if err := b.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.log.await(t, "2 reply waits aborted")
	b.log.await(t, "1 reply k-deaf error KernelDied")
	b.log.awaitCount(t, "0 kernel_restarted restart", 2)
	b.submit(t, "ok", key("after"))
	b.log.await(t, "3 reply after ok")
}

func TestQueueInput(t *testing.T) {
	b := newBench(t)
	b.submit(t, "ask")
	b.log.await(t, "1 asked")
	if err := b.Input(protocol.InputReply{Cell: 2, Value: "x"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("input for another cell: %v, want conflict", err)
	}
	if err := b.Input(protocol.InputReply{Cell: 1, Value: "Ada"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Input(protocol.InputReply{Cell: 1, Value: "again"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second answer: %v, want conflict", err)
	}
	b.log.await(t, "1 reply k-ask ok")
	b.submit(t, "ask", key("silent"), func(e *protocol.Execute) { e.NoInput = true })
	b.log.await(t, "2 reply silent error EOFError")
	for _, l := range b.log.all() {
		if l == "2 asked" {
			t.Error("the request of a cell that may not ask is in the log")
		}
	}
}

func TestQueueLimits(t *testing.T) {
	b := newBench(t)
	b.submit(t, "hang")
	b.log.await(t, "1 busy")
	for i := range protocol.MaxQueue {
		b.submit(t, "ok", key(fmt.Sprint("n", i)))
	}
	if _, err := b.Submit(protocol.Execute{Code: "ok"}); !fault.Is(err, fault.Exhausted) {
		t.Errorf("one more than %d: %v, want exhausted", protocol.MaxQueue, err)
	}
	if err := b.Interrupt(context.Background(), 0, 0); err != nil {
		t.Fatal(err)
	}
	b.log.await(t, "1 idle")
	b.submit(t, "hang", key("h2"))
	b.log.await(t, fmt.Sprintf("%d busy", protocol.MaxQueue+2))
	big := strings.Repeat("x", protocol.MaxCode)
	for range MaxCodeBytes / protocol.MaxCode {
		b.submit(t, big, key(""))
	}
	if _, err := b.Submit(protocol.Execute{Code: big}); !fault.Is(err, fault.Exhausted) {
		t.Errorf("over %d bytes: %v, want exhausted", MaxCodeBytes, err)
	}
}

func TestQueueClose(t *testing.T) {
	b := newBench(t)
	b.submit(t, "hang")
	b.log.await(t, "1 busy")
	b.submit(t, "ok", key("waits"))
	b.Close(Death{Reason: LostReason, Message: "the sandbox ended: memory"})
	b.log.want(t, "1 input k-hang [1]", "1 busy", "1 error SandboxLost",
		"1 reply k-hang error SandboxLost", "1 idle", "2 reply waits aborted")
	if _, err := b.Submit(protocol.Execute{Code: "ok"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("after the end: %v, want conflict", err)
	}
	if err := b.Restart(context.Background()); !fault.Is(err, fault.Conflict) {
		t.Errorf("restart after the end: %v, want conflict", err)
	}
}

func TestQueueRefusedRequestKeepsTheKernel(t *testing.T) {
	b := newBench(t)
	b.submit(t, "refuse")
	b.log.await(t, "1 idle")
	b.submit(t, "ok")
	b.log.await(t, "2 reply k-ok ok")
	if len(b.kernels) != 1 {
		t.Errorf("%d kernels were started, want 1", len(b.kernels))
	}
}

// TestQueueEveryCellIsAnswered runs many operations at random and then checks that each
// acknowledged execute has exactly one reply.
func TestQueueEveryCellIsAnswered(t *testing.T) {
	b := newBench(t)
	codes := []string{"ok", "fail", "hang", "die", "ok", "deaf", "refuse"}
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[uint32]bool{}
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				q, err := b.Submit(protocol.Execute{
					Key:  fmt.Sprint(w, ".", i),
					Code: codes[(i+w)%len(codes)], TimeoutMS: 20, KeepGoing: i%3 == 0,
				})
				if err != nil {
					t.Error(err)
					continue
				}
				mu.Lock()
				acknowledged[q.Cell] = true
				mu.Unlock()
				switch i % 17 {
				case 5:
					_ = b.Interrupt(context.Background(), 0, time.Millisecond)
				case 11:
					_ = b.Restart(context.Background())
				}
			}
		})
	}
	wg.Wait()
	last := b.submit(t, "ok", key("last"))
	acknowledged[last] = true
	// A kernel may still be restarting after the last cell.
	b.submit(t, "ok", key("fence"), func(e *protocol.Execute) { e.KeepGoing = true })
	acknowledged[last+1] = true
	b.log.awaitAny(t, fmt.Sprintf("%d reply fence ok", last+1),
		fmt.Sprintf("%d reply fence aborted", last+1))
	replies := map[uint32]int{}
	for _, l := range b.log.all() {
		var cell uint32
		var word string
		if n, _ := fmt.Sscanf(l, "%d %s", &cell, &word); n == 2 && word == "reply" {
			replies[cell]++
		}
	}
	for cell := range acknowledged {
		if replies[cell] != 1 {
			t.Errorf("cell %d has %d replies, want 1", cell, replies[cell])
		}
	}
	if len(replies) != len(acknowledged) {
		t.Errorf("%d cells have replies, %d were acknowledged", len(replies), len(acknowledged))
	}
}
