package service

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// fakeHost runs processes that end when the test calls end.
type fakeHost struct {
	mu      sync.Mutex // guards all below
	awake   bool
	visits  int // under way
	starts  map[string]int
	exits   map[string]func(protocol.Exit) // by service, while its process runs
	refuse  error                          // the result of Start
	isReady bool
}

func (h *fakeHost) Visit(context.Context) (func(), bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.awake {
		return nil, false
	}
	h.visits++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.visits--
	}, true
}

func (h *fakeHost) Start(_ context.Context, s protocol.Service,
	exited func(protocol.Exit),
) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.visits == 0 {
		panic("a start without a visit")
	}
	h.starts[s.Name]++
	if h.refuse != nil {
		return "p-" + s.Name, h.refuse
	}
	h.exits[s.Name] = exited
	return "p-" + s.Name, nil
}

func (h *fakeHost) Adopt(name string, exited func(protocol.Exit)) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.starts[name] == 0 {
		return "", false
	}
	_, runs := h.exits[name]
	if runs {
		h.exits[name] = exited
	}
	return "p-" + name, runs
}

func (h *fakeHost) Stop(_ context.Context, name string, _ bool) error {
	h.end(name, protocol.Exit{Code: -1, Signal: "SIGTERM"})
	return nil
}

func (h *fakeHost) Ready(ctx context.Context, _ protocol.Service) error {
	for {
		h.mu.Lock()
		ok := h.isReady
		h.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// end ends the process of a service, if one runs.
func (h *fakeHost) end(name string, e protocol.Exit) {
	h.mu.Lock()
	exited := h.exits[name]
	delete(h.exits, name)
	h.mu.Unlock()
	if exited != nil {
		exited(e)
	}
}

// rig is a supervisor with its host.
type rig struct {
	t *testing.T
	*Supervisor
	host                       *fakeHost
	starts, restarts, failures atomic.Int64
	finish                     context.CancelFunc
}

func newRig(t *testing.T, saved []snapshot.Service) *rig {
	h := &fakeHost{starts: map[string]int{}, exits: map[string]func(protocol.Exit){}}
	r := &rig{t: t, host: h}
	life, cancel := context.WithCancel(context.Background())
	r.finish = cancel
	r.Supervisor = New(Config{
		Host: h, Life: life, Starts: &r.starts, Restarts: &r.restarts, Failures: &r.failures,
		Tail: func(context.Context, string) string { return "the last line" },
	}, saved)
	return r
}

// awake changes whether the session runs, and lets the supervisor act.
func (r *rig) awake(on bool) {
	r.host.mu.Lock()
	r.host.awake = on
	r.host.mu.Unlock()
	r.SetAwake(on)
	synctest.Wait()
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// exit ends the process of the service web with a status.
func (r *rig) exit(code int) {
	r.host.end("web", protocol.Exit{Code: code})
	synctest.Wait()
}

// want checks the state of the service web, and how often it was started.
func (r *rig) want(state string, starts int) {
	r.t.Helper()
	v, err := r.State("web")
	r.host.mu.Lock()
	n := r.host.starts["web"]
	r.host.mu.Unlock()
	if err != nil || v.State != state || n != starts {
		r.t.Errorf("the service is %q (%v) after %d starts, want %q after %d: %+v", v.State, err, n,
			state, starts, v)
	}
}

// supervised runs a test with a supervisor of the service web in a session that runs.
func supervised(t *testing.T, s protocol.Service, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		s.Name = "web"
		r := newRig(t, Declared([]protocol.Service{s}))
		r.awake(true)
		test(r)
		r.finish()
		synctest.Wait()
	})
}

// TestBackoff: the waits between restarts grow from a second, the tenth failure in a row is the
// last, and a request starts the service again.
func TestBackoff(t *testing.T) {
	supervised(t, protocol.Service{}, func(r *rig) {
		r.want(ready, 1)
		wait := firstWait
		for n := 1; n < protocol.MaxServiceStarts; n++ {
			r.exit(1)
			r.want(backoff, n)
			r.pass(wait - time.Millisecond)
			r.want(backoff, n)
			r.pass(time.Millisecond)
			r.want(ready, n+1)
			wait = min(2*wait, longestWait)
		}
		r.exit(1)
		r.want(failed, protocol.MaxServiceStarts)
		if n := r.failures.Load(); n != 1 {
			t.Errorf("%d failures were counted", n)
		}
		r.pass(time.Hour)
		r.want(failed, protocol.MaxServiceStarts)
		if err := r.Start("web"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r.want(ready, protocol.MaxServiceStarts+1)
		r.exit(1)
		r.want(backoff, protocol.MaxServiceStarts+1)
	})
}

// TestStableReset: failures before a minute of running do not count afterwards.
func TestStableReset(t *testing.T) {
	supervised(t, protocol.Service{}, func(r *rig) {
		for range 5 {
			r.exit(1)
			r.pass(longestWait)
		}
		r.pass(stableTime)
		r.exit(1)
		r.pass(firstWait)
		r.want(ready, 7)
	})
}

// TestPolicies: a policy decides what follows an end.
func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policy string
		code   int
		want   string
	}{
		{"", 0, backoff},
		{"always", 0, backoff},
		{"on-failure", 0, exited},
		{"on-failure", 2, backoff},
		{"never", 0, exited},
		{"never", 2, failed},
	} {
		supervised(t, protocol.Service{Restart: c.policy}, func(r *rig) {
			r.exit(c.code)
			if r.want(c.want, 1); t.Failed() {
				t.Fatalf("%+v", c)
			}
			if v, _ := r.State("web"); v.Exit == nil || v.Exit.Code != c.code {
				t.Errorf("the exit is %+v", v.Exit)
			}
		})
	}
}

// TestReadiness: a service is starting until it is ready. A service that is not ready in
// time is ended. A service that ends before it is ready has failed, whatever its status.
func TestReadiness(t *testing.T) {
	check := &protocol.ServiceReady{Port: 80, TimeoutSeconds: 5}
	supervised(t, protocol.Service{Ready: check}, func(r *rig) {
		r.want(starting, 1)
		r.host.mu.Lock()
		r.host.isReady = true
		r.host.mu.Unlock()
		r.pass(time.Second)
		r.want(ready, 1)
	})
	supervised(t, protocol.Service{Ready: check, Restart: "never"}, func(r *rig) {
		r.pass(6 * time.Second)
		r.want(failed, 1)
		if v, _ := r.State("web"); v.Message != "it was not ready within 5s" {
			t.Errorf("the message is %q", v.Message)
		}
	})
	supervised(t, protocol.Service{Ready: check, Restart: "on-failure"}, func(r *rig) {
		r.exit(0)
		r.want(backoff, 1)
	})
}

// TestStartFails: a command that cannot be started has failed with the reason.
func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Declared([]protocol.Service{{Name: "web", Restart: "never"}}))
		r.host.refuse = fault.Invalid("x", "argv", "there is no program web")
		r.awake(true)
		r.want(failed, 1)
		if v, _ := r.State("web"); v.Message != "there is no program web" || v.Channel == "" {
			t.Errorf("the service is %+v", v)
		}
		r.finish()
	})
}

// TestIdle: while the session does not run, nothing is started and no timer runs. Afterwards a
// process that runs stays, one that has gone is started again, and a wait that is over ends.
func TestIdle(t *testing.T) {
	supervised(t, protocol.Service{}, func(r *rig) {
		r.awake(false)
		r.pass(time.Hour)
		r.awake(true)
		r.want(ready, 1)

		r.exit(1)
		r.awake(false)
		r.pass(time.Hour)
		r.want(backoff, 1)
		r.awake(true)
		r.want(ready, 2)

		r.awake(false)
		r.host.mu.Lock()
		delete(r.host.exits, "web") // it is not in the memory that the session resumes from
		r.host.mu.Unlock()
		r.awake(true)
		r.want(ready, 3)
	})
}

// TestIdleWhileStarting: the time for readiness begins again when the session runs again.
func TestIdleWhileStarting(t *testing.T) {
	check := &protocol.ServiceReady{Port: 80, TimeoutSeconds: 5}
	supervised(t, protocol.Service{Ready: check}, func(r *rig) {
		r.pass(4 * time.Second)
		r.awake(false)
		r.pass(time.Hour)
		r.awake(true)
		r.pass(4 * time.Second)
		r.want(starting, 1)
		r.pass(1500 * time.Millisecond)
		r.want(backoff, 1)
	})
}

// TestSavedServices: a supervisor with saved records continues with the processes that run, and
// starts those that do not. Services that were stopped or had failed stay so.
func TestSavedServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newRig(t, Declared([]protocol.Service{
			{Name: "web"},
			{Name: "gone"},
			{Name: "once", Restart: "never"},
			{Name: "stopped"},
		}))
		old.awake(true)
		if err := old.Stop(t.Context(), "stopped"); err != nil {
			t.Fatal(err)
		}
		saved := old.Save()
		old.finish()
		synctest.Wait()
		r := newRig(t, saved)
		r.host.starts = map[string]int{"web": 1, "gone": 1, "once": 1, "stopped": 1}
		r.host.exits["web"] = func(protocol.Exit) {}
		r.awake(true)
		var states []string
		for _, v := range r.List().Services {
			states = append(states, v.Name+" "+v.State)
		}
		if got := strings.Join(states, ", "); got !=
			"gone ready, once failed, stopped stopped, web ready" {
			t.Errorf("the services are %s", got)
		}
		if r.host.starts["gone"] != 2 || r.host.starts["once"] != 1 || r.restarts.Load() != 1 {
			t.Errorf("the starts are %v", r.host.starts)
		}
		r.exit(1)
		r.want(backoff, 1)
		r.finish()
		synctest.Wait()
	})
}

// TestRequests: services are added, replaced, stopped, started, restarted and removed. There are at
// most 16, and lists do not show their environments.
func TestRequests(t *testing.T) {
	env := map[string]string{"SECRET": "x"}
	supervised(t, protocol.Service{Env: env}, func(r *rig) {
		ctx := r.t.Context()
		for _, do := range []struct {
			what   string
			do     func() error
			state  string
			starts int
		}{
			{"stop", func() error { return r.Stop(ctx, "web") }, stopped, 1},
			{"start", func() error { return r.Start("web") }, ready, 2},
			{"start again", func() error { return r.Start("web") }, ready, 2},
			{"restart", func() error { return r.Restart(ctx, "web") }, ready, 3},
			{"set", func() error {
				return r.Set(ctx, protocol.Service{Name: "web", Env: env, Restart: "never"})
			}, ready, 4},
		} {
			if err := do.do(); err != nil {
				t.Fatalf("%s: %v", do.what, err)
			}
			synctest.Wait()
			r.want(do.state, do.starts)
		}
		if v, _ := r.State("web"); v.Env != nil || v.Restart != "never" {
			t.Errorf("the service is %+v", v)
		}
		if r.Save()[0].Env["SECRET"] != "x" {
			t.Error("the environment is not in the record")
		}
		for n := range protocol.MaxServices {
			err := r.Set(ctx, protocol.Service{Name: "more" + string(rune('a'+n))})
			if full := n == protocol.MaxServices-1; fault.Is(err, fault.Exhausted) != full {
				t.Errorf("service %d: %v", n+2, err)
			}
		}
		synctest.Wait()
		if err := r.Remove(ctx, "web"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.State("web"); !fault.Is(err, fault.NotFound) {
			t.Errorf("a removed service: %v", err)
		}
		r.pass(time.Hour)
		if n := r.host.starts["web"]; n != 4 {
			t.Errorf("a removed service was started: %d", n)
		}
	})
}

// TestWait: a wait ends when all services are ready, and its errors name the service and end with
// its last output.
func TestWait(t *testing.T) {
	check := &protocol.ServiceReady{Port: 80, TimeoutSeconds: 100}
	supervised(t, protocol.Service{Ready: check}, func(r *rig) {
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
		defer cancel()
		err := r.Wait(ctx, "op", "")
		if !fault.Is(err, fault.DeadlineExceeded) || fault.PublicOf(err).Message !=
			"the service web is not ready; its last output: the last line" {
			t.Errorf("a wait that is too long: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			r.host.mu.Lock()
			defer r.host.mu.Unlock()
			r.host.isReady = true
		}()
		if err := r.Wait(r.t.Context(), "op", "web"); err != nil {
			t.Error(err)
		}
		if err := r.Wait(r.t.Context(), "op", "other"); !fault.Is(err, fault.NotFound) {
			t.Errorf("a wait for a service that does not exist: %v", err)
		}
	})
	supervised(t, protocol.Service{Ready: check, Restart: "never"}, func(r *rig) {
		go func() {
			time.Sleep(time.Second)
			r.host.end("web", protocol.Exit{Code: 3})
		}()
		err := r.Wait(r.t.Context(), "op", "")
		if !fault.Is(err, fault.Conflict) || fault.PublicOf(err).Message !=
			"the service web will not be ready: its command ended with status 3; its last output: the last line" {
			t.Errorf("a wait for a service that fails: %v", err)
		}
	})
}
