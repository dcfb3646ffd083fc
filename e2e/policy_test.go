package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// becomes waits until a session has a state.
func (s *session) becomes(state string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Minute)
	defer cancel()
	for {
		v, err := s.client.Session(ctx, s.id)
		check(s.t, err)
		if v.State == state {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			s.t.Fatalf("the session is %s, want %s", v.State, state)
		}
	}
}

// TestPolicies checks that each session is paused and hibernated after the times that
// it asked for. When there is no room, the session that was idle longest is evicted.
func TestPolicies(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := Start(
		ctx, "pool: {size: 1, languages: [bash], memory: 0}\nsessions: {max: 2, queue: 0, max_keep_alive: 1, max_idle: 1h}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	create := func(p protocol.SessionCreate) *session {
		t.Helper()
		p.Language = "bash"
		return openWith(t, srv, p)
	}

	kept := create(protocol.SessionCreate{
		KeepAlive: true, IdlePauseSeconds: 1,
		IdleHibernateSeconds: 1,
	})
	idle := create(protocol.SessionCreate{IdlePauseSeconds: 1, IdleHibernateSeconds: 2})
	idle.run("ok", "x=kept")
	idle.becomes("paused")
	idle.becomes("hibernated")
	kept.becomes("running")
	if out := idle.run("ok", "echo $x"); out.stdout != "kept\n" {
		t.Errorf("after the resume it prints %q", out.stdout)
	}
	c := kept.client
	if _, err := c.UpdateSession(ctx, protocol.SessionUpdate{
		Session:   idle.id,
		KeepAlive: new(true),
	}); !fault.Is(err, fault.Exhausted) {
		t.Errorf("a second session that is kept alive: %v", err)
	}
	for field, p := range map[string]protocol.SessionUpdate{
		"idle_pause_seconds": {IdlePauseSeconds: new(int64(3601))},
		"lifetime_seconds":   {LifetimeSeconds: new(int64(1) << 40)},
		"name":               {Name: new("a\nb")},
	} {
		p.Session = idle.id
		if _, err := c.UpdateSession(ctx, p); fault.PublicOf(err).Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}

	// A session that works is not idle, and the last update counts.
	v, err := c.UpdateSession(ctx, protocol.SessionUpdate{
		Session: idle.id, Name: new("other"), IdlePauseSeconds: new(int64(3600)),
		IdleHibernateSeconds: new(int64(3600)), LifetimeSeconds: new(int64(60)),
	})
	check(t, err)
	if left := time.Until(time.UnixMilli(v.ExpiresMS)); v.Name != "other" ||
		v.IdlePauseSeconds != 3600 || left > time.Minute || left < 30*time.Second {
		t.Errorf("updated: %+v", v)
	}

	// A pause freezes running programs, and the next request continues them.
	cell := kept.begin("for i in $(seq 200); do echo $i; sleep 0.01; done")
	paused := false
	out := kept.collect(cell, func(r frame.Record) {
		if paused || r.Kind != frame.KindStdout {
			return
		}
		paused = true
		v, err := c.PauseSession(ctx, kept.id)
		check(t, err)
		if v.State != "paused" {
			t.Errorf("after the pause it is %s", v.State)
		}
		begin := time.Now()
		_, err = c.ResumeSession(ctx, kept.id)
		check(t, err)
		t.Logf("resumed in %s", time.Since(begin))
	})
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintln(&want, i+1)
	}
	if out.stdout != want.String() || !paused {
		t.Errorf("over a pause: %q", out.stdout)
	}

	// There are two places. Sessions that are kept alive or work are not evicted.
	busy := idle.begin("sleep 1000")
	if _, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "bash"}); !fault.Is(err,
		fault.Exhausted) || fault.PublicOf(err).RetryAfter == 0 {
		t.Errorf("without room: %v", err)
	}
	check(t, idle.kernel.Interrupt(ctx, 0))
	idle.collect(busy, nil)
	// After a second without work the session is evicted.
	third := &session{t: t, ctx: ctx, client: c}
	eventually(t, "room for a third session", func() bool {
		made, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
		if fault.Is(err, fault.Exhausted) {
			return false
		}
		check(t, err)
		third.id = made.ID
		return true
	})
	idle.becomes("hibernated")
	kept.becomes("running")
	// The session is resumed when the new one is paused.
	_, err = c.PauseSession(ctx, third.id)
	check(t, err)
	eventually(t, "room for the evicted session", func() bool {
		_, err = c.ResumeSession(ctx, idle.id)
		return !fault.Is(err, fault.Exhausted)
	})
	check(t, err)
	if out := idle.run("ok", "echo $x"); out.stdout != "kept\n" {
		t.Errorf("resumed, it prints %q", out.stdout)
	}
	third.becomes("hibernated")
}

// TestKeepalive checks that a session does not become idle for the time that it asked for.
func TestKeepalive(t *testing.T) {
	ctx := deadline(t)
	c, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	made, err := c.CreateSession(ctx, protocol.SessionCreate{IdlePauseSeconds: 60})
	check(t, err)
	s := &session{t: t, ctx: ctx, client: c, id: made.ID}
	t.Cleanup(func() { c.DeleteSession(context.WithoutCancel(ctx), s.id) })
	begin := time.Now()
	if _, err := c.KeepSession(ctx, s.id, 3); err != nil {
		t.Fatal(err)
	}
	_, err = c.UpdateSession(ctx,
		protocol.SessionUpdate{Session: s.id, IdlePauseSeconds: new(int64(1))})
	check(t, err)
	s.becomes("paused")
	if took := time.Since(begin); took < 4*time.Second-50*time.Millisecond {
		t.Errorf("it was paused after %s, want 4 s", took)
	}
	if _, err := c.KeepSession(ctx, s.id, 1<<40); fault.PublicOf(err).Field != "seconds" {
		t.Errorf("kept alive for longer than the limit: %v", err)
	}
}

// TestLifetimeOnTheCommandLine checks that -1 and never work where the operator sets no bound, and
// that the list of sessions has the end with its reason.
func TestLifetimeOnTheCommandLine(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	for flags, want := range map[string]string{
		"":                  `never`,
		"--lifetime=never":  `never`,
		"--lifetime=5h":     `in [45]h`,
		"--idle-delete=48h": `in \w+ \(idle\)`,
	} {
		args := []string{"session", "create", "--name", "life" + flags}
		if flags != "" {
			args = append(args, flags)
		}
		out, err := command(ctx, t, server, args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		id := strings.TrimSpace(out)
		t.Cleanup(func() { _, _ = command(deadline(t), t, server, "session", "delete", id) })
		out, err = command(ctx, t, server, "session", "list")
		check(t, err)
		if !regexp.MustCompile("(?m)^" + id + " .* " + want + " ").MatchString(out) {
			t.Errorf("%s: the list has no %q:\n%s", flags, want, out)
		}
	}
	var s struct {
		ID        string `json:"id"`
		ExpiresMS int64  `json:"expires_ms"`
	}
	status, err := server.JSON(ctx, "POST", "/v1/sessions",
		map[string]any{"language": "bash", "lifetime_seconds": -1}, &s)
	check(t, err)
	if status != 201 || s.ExpiresMS != 0 {
		t.Errorf("lifetime_seconds -1: %d %+v", status, s)
	}
	_, err = server.JSON(ctx, "DELETE", "/v1/sessions/"+s.ID, nil, nil)
	check(t, err)
}
