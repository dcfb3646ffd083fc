package queue

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// paper is a log that signals each write.
type paper struct {
	mu    sync.Mutex
	lines []string
	wrote chan struct{} // closed and replaced at each write
}

func (l *paper) Append(_ frame.Kind, _ uint32, b []byte) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	close(l.wrote)
	l.wrote = make(chan struct{})
	return 0, nil
}

func (l *paper) until(t *testing.T, text string, n int) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		l.mu.Lock()
		have, wrote := strings.Count(strings.Join(l.lines, "\n"), text), l.wrote
		all := strings.Join(l.lines, "\n")
		l.mu.Unlock()
		if have == n {
			return
		}
		select {
		case <-wrote:
		case <-late:
			t.Fatalf("%q is there %d times, not %d:\n%s", text, have, n, all)
		}
	}
}

// sleeper is a driver whose executes last until the test ends them.
type sleeper struct {
	asked chan kernel.Request
	reply chan message.Reply
}

func (d *sleeper) Request(ctx context.Context, r kernel.Request) (message.Reply, error) {
	d.asked <- r
	return d.wait(ctx)
}

func (d *sleeper) wait(ctx context.Context) (message.Reply, error) {
	select {
	case r := <-d.reply:
		return r, nil
	case <-ctx.Done():
		return message.Reply{}, fault.Wrap(fault.KindOf(ctx.Err()), "test", ctx.Err())
	}
}

func (d *sleeper) Notify(kernel.Request) error     { return nil }
func (d *sleeper) Interrupt(context.Context) error { return nil }
func (d *sleeper) Kill(context.Context) error      { return nil }

// TestSaveQueue: the running cell, the waiting ones, the keys, the numbers and the history continue
// in another queue, and each cell is reported once.
func TestSaveQueue(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	d := &sleeper{asked: make(chan kernel.Request, 8), reply: make(chan message.Reply, 8)}
	log := &paper{wrote: make(chan struct{})}
	q := New(Options{Log: log, Driver: d, Info: message.Info{Language: "test"}})
	submit := func(code string) protocol.Queued {
		t.Helper()
		r, err := q.Submit(protocol.Execute{Code: code, Key: code})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	d.reply <- message.Reply{Status: "ok", Count: 1}
	submit("a")
	<-d.asked
	log.until(t, `"idle"`, 1)
	submit("b")
	<-d.asked
	submit("c")
	log.until(t, `"busy"`, 2)
	again := func() {
		t.Helper()
		s, driver, err := q.Save(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if driver != Driver(d) {
			t.Fatalf("the driver is %v", driver)
		}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var read Saved
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		q = New(Options{Log: log, Driver: d, Saved: &read, Rejoin: d.wait})
	}
	again()
	again()
	if s := q.State(); s.Name != "busy" || s.Queued != 1 || !s.Work || s.Info.Language != "test" {
		t.Errorf("saved: %+v", s)
	}
	d.reply <- message.Reply{Status: "ok", Count: 2} // reply of b
	<-d.asked                                        // request of c
	again()
	d.reply <- message.Reply{Status: "ok", Count: 3}
	log.until(t, `"execute_reply"`, 3)
	log.until(t, `"execute_input"`, 3)
	log.until(t, `"idle"`, 3)
	if r := submit("a"); !r.Repeated || r.Cell != 1 {
		t.Errorf("the key: %+v", r)
	}
	if r := submit("d"); r.Repeated || r.Cell != 4 {
		t.Errorf("the next cell: %+v", r)
	}
	<-d.asked
	var codes []string
	for _, e := range q.History() {
		codes = append(codes, e.Code+" "+e.Status)
	}
	if got := strings.Join(codes, ","); got != "a ok,b ok,c ok,d running" {
		t.Errorf("the history: %s", got)
	}
	q.Close(Death{Reason: "closed", Message: "closed"})
	if _, _, err := q.Save(ctx); !fault.Is(err, fault.Conflict) {
		t.Errorf("a closed queue is saved: %v", err)
	}
}

// TestCopyQueue: a queue is copied while it works, and both continue. The running cell ends in
// both, waiting cells run only in the original.
func TestCopyQueue(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	d := &sleeper{asked: make(chan kernel.Request, 8), reply: make(chan message.Reply, 8)}
	log := &paper{wrote: make(chan struct{})}
	q := New(Options{Log: log, Driver: d, Info: message.Info{Language: "test"}})
	defer q.Close(Death{Reason: "closed", Message: "closed"})
	for _, code := range []string{"a", "b", "c"} {
		if _, err := q.Submit(protocol.Execute{Code: code, Key: code}); err != nil {
			t.Fatal(err)
		}
	}
	<-d.asked // request of a
	owes := func(Driver) bool { return true }
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, _, err := q.Copy(short, func(Driver) bool { return false }); !fault.Is(err,
		fault.DeadlineExceeded) {
		t.Errorf("a reply that has been given is not waited for: %v", err)
	}
	s, driver, err := q.Copy(ctx, owes)
	if err != nil || driver != Driver(d) || s.Running == nil || len(s.Waiting) != 2 {
		t.Fatalf("copied: %+v, %v, %v", s, driver, err)
	}
	e := &sleeper{asked: make(chan kernel.Request, 8), reply: make(chan message.Reply, 8)}
	other := &paper{wrote: make(chan struct{})}
	alone := s.ForClone(true, time.Hour)
	if alone.Running.BeganMS < s.Running.BeganMS+3_600_000 {
		t.Error("the cell's time has run on between the two")
	}
	alone.Lost = []SavedCell{{Execute: protocol.Execute{Key: "z"}, Cell: 9}}
	p := New(Options{Log: other, Driver: e, Saved: &alone, Rejoin: e.wait})
	defer p.Close(Death{Reason: "closed", Message: "closed"})
	other.until(t, `"aborted"`, 2)
	other.until(t, `"SandboxLost"`, 2) // an error and a reply
	e.reply <- message.Reply{Status: "ok", Count: 1}
	other.until(t, `"status":"ok"`, 1)
	for key, cell := range map[string]uint32{"a": 1, "b": 2, "z": 9, "new": 10} {
		if r, err := p.Submit(protocol.Execute{Code: "1", Key: key}); err != nil ||
			r.Cell != cell || r.Repeated == (key == "new") {
			t.Errorf("the key %s gives %+v, %v", key, r, err)
		}
	}
	if h := p.History(); len(h) < 1 || h[0].Code != "a" || h[0].Status != "ok" {
		t.Errorf("the copy's history: %+v", h)
	}
	for range 3 {
		d.reply <- message.Reply{Status: "ok"}
	}
	log.until(t, `"status":"ok"`, 3)
	if s, _, err := q.Copy(ctx, owes); err != nil || s.Running != nil || s.State != "idle" {
		t.Errorf("copied at rest: %+v, %v", s, err)
	}
	if s := s.ForClone(false, 0); s.Running != nil || len(s.Abort) != 3 || len(s.History) != 0 ||
		s.State != "idle" {
		t.Errorf("a cell that had not been sent: %+v", s)
	}
}

// TestQueueWithoutKernel: a queue whose kernel has ended meanwhile reports that once. The running cell
// fails, the waiting one does not run, and the next one starts a kernel.
func TestQueueWithoutKernel(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	d := &sleeper{asked: make(chan kernel.Request, 8), reply: make(chan message.Reply, 8)}
	q := New(Options{Log: &paper{wrote: make(chan struct{})}, Driver: d})
	for _, code := range []string{"a", "b"} {
		if _, err := q.Submit(protocol.Execute{Code: code, Key: code}); err != nil {
			t.Fatal(err)
		}
	}
	<-d.asked
	s, _, err := q.Save(ctx)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(s.WithoutKernel(Death{Reason: "upgraded", Message: "it was upgraded"}))
	if err != nil {
		t.Fatal(err)
	}
	var read Saved
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	log := &paper{wrote: make(chan struct{})}
	started := func(context.Context) (Driver, message.Info, error) { return d, message.Info{}, nil }
	q = New(Options{Log: log, Saved: &read, Start: started})
	defer q.Close(Death{Reason: "closed", Message: "closed"})
	log.until(t, `"dead"`, 1)
	log.until(t, `"aborted"`, 1)
	log.until(t, `"KernelDied"`, 2) // an error and a reply
	log.until(t, `"event":"kernel_died"`, 1)
	if s := q.State(); s.Name != "dead" || s.Queued != 0 || s.Work {
		t.Errorf("%+v", s)
	}
	if s, k, err := q.Copy(ctx, nil); err != nil || k != nil || s.Died != nil || s.Running != nil {
		t.Errorf("copied: %+v, %v, %v", s, k, err)
	}
	d.reply <- message.Reply{Status: "ok", Count: 1}
	if r, err := q.Submit(protocol.Execute{Code: "c", Key: "c"}); err != nil || r.Cell != 3 {
		t.Errorf("%+v %v", r, err)
	}
	log.until(t, `"event":"kernel_restarted","reason":"upgraded"`, 1)
	log.until(t, `"status":"ok"`, 1)
}
