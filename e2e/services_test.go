package e2e

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// webService is a web server as a service. Its files are in its own folder.
func webService() protocol.Service {
	return protocol.Service{
		Name: "web", Cmd: "mkdir -p www && cd www && echo $GREETING >index.html && " +
			"exec python3 -u -m http.server 8000",
		Env: map[string]string{"GREETING": "hello"},
		Ready: &protocol.ServiceReady{
			HTTP: &protocol.HTTPReady{Port: 8000, Path: "/index.html", Status: 200},
		},
	}
}

// services is a session with services, and its client.
type services struct {
	t      *testing.T
	ctx    context.Context
	srv    *Server
	client *wire.Client
	id     string
}

func withServices(t *testing.T, srv *Server, r protocol.SessionCreate) services {
	t.Helper()
	ctx := deadline(t)
	c, err := wire.New(srv.URL, srv.Token, wire.Options{})
	check(t, err)
	made, err := c.CreateSession(ctx, r)
	check(t, err)
	t.Cleanup(func() { _ = c.DeleteSession(context.WithoutCancel(ctx), made.ID) })
	return services{t, ctx, srv, c, made.ID}
}

// state returns a service, which need not run.
func (s services) state(name string) protocol.ServiceState {
	s.t.Helper()
	all, err := s.client.Services(s.ctx, s.id)
	check(s.t, err)
	for _, v := range all {
		if v.Name == name {
			return v
		}
	}
	s.t.Fatalf("there is no service %s: %+v", name, all)
	return protocol.ServiceState{}
}

// reaches waits until a service is in a state.
func (s services) reaches(name, state string) protocol.ServiceState {
	s.t.Helper()
	eventually(s.t, name+" is "+state, func() bool { return s.state(name).State == state })
	return s.state(name)
}

// page returns what the web server answers, "" if it does not.
func (s services) page() string {
	s.t.Helper()
	resp, err := s.srv.Do(s.ctx, "GET", "/v1/sessions/"+s.id+"/ports/8000/index.html", nil)
	check(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(s.t, err)
	if resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// log returns the output of a channel.
func (s services) log(channel string) string {
	s.t.Helper()
	resp, err := s.srv.Do(s.ctx, "GET",
		"/v1/sessions/"+s.id+"/channels/"+channel+"/text", nil)
	check(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check(s.t, err)
	return string(body)
}

// kill ends a service's process from inside the sandbox.
func (s services) kill(channel string) {
	s.t.Helper()
	all, err := s.client.Processes(s.ctx, s.id)
	check(s.t, err)
	for _, p := range all {
		if p.Channel == channel {
			check(s.t, s.client.SignalProcess(s.ctx, s.id, p.PID, "SIGKILL"))
			return
		}
	}
	s.t.Fatalf("no process of %s runs: %+v", channel, all)
}

// TestServices: a service is ready when the session is created. It is started again when it is
// killed, stays over a hibernation, and runs in forks, each with its own port. Its output is one
// log.
func TestServices(t *testing.T) {
	s := withServices(t, server, protocol.SessionCreate{
		Services: []protocol.Service{webService()}, WaitReady: true,
	})
	v := s.state("web")
	if v.State != "ready" || v.Restarts != 0 || v.Channel == "" || v.Env != nil {
		t.Errorf("after the creation: %+v", v)
	}
	if got := s.page(); got != "hello\n" {
		t.Errorf("the page is %q", got)
	}
	s.kill(v.Channel)
	eventually(t, "a restart", func() bool { return s.state("web").Restarts == 1 })
	again := s.reaches("web", "ready")
	if got := s.page(); got != "hello\n" || again.Channel != v.Channel {
		t.Errorf("after a restart: %q, %+v", got, again)
	}
	if text := s.log(v.Channel); strings.Count(text, "GET /index.html") < 2 {
		t.Errorf("the log of both processes is %q", text)
	}

	_, err := s.client.HibernateSession(s.ctx, s.id)
	check(t, err)
	if v := s.state("web"); v.State != "ready" {
		t.Errorf("in a hibernated session: %+v", v)
	}
	if found, err := s.client.Session(s.ctx, s.id); err != nil || found.State != "hibernated" {
		t.Errorf("a list of services has resumed the session: %+v, %v", found, err)
	}
	if got := s.page(); got != "hello\n" || s.state("web").Restarts != 1 {
		t.Errorf("after a resume: %q, %+v", got, s.state("web"))
	}

	forks, err := s.client.ForkSession(s.ctx, protocol.SessionFork{Session: s.id})
	check(t, err)
	copied := s
	copied.id = forks.Sessions[0].ID
	t.Cleanup(func() { _ = s.client.DeleteSession(context.WithoutCancel(s.ctx), copied.id) })
	if got := copied.page(); got != "hello\n" || copied.state("web").State != "ready" {
		t.Errorf("in the fork: %q, %+v", got, copied.state("web"))
	}
	copied.kill(v.Channel)
	eventually(t, "a restart in the fork",
		func() bool { v := copied.state("web"); return v.Restarts == 2 && v.State == "ready" })
	if n := s.state("web").Restarts; n != 1 || s.page() != "hello\n" {
		t.Errorf("the original was restarted %d times", n)
	}

	changed := webService()
	changed.Env = map[string]string{"GREETING": "changed"}
	_, err = s.client.SetService(s.ctx, s.id, changed, true)
	check(t, err)
	if got := s.page(); got != "changed\n" {
		t.Errorf("the page of the changed service is %q", got)
	}
	if v, err := s.client.StopService(s.ctx, s.id, "web"); err != nil || v.State != "stopped" ||
		s.page() != "" {
		t.Errorf("a stopped service: %+v, %v", v, err)
	}
	v, err = s.client.StartService(s.ctx, s.id, "web", true)
	if err != nil || v.State != "ready" || s.page() != "changed\n" {
		t.Errorf("a started service: %+v, %v", v, err)
	}
	check(t, s.client.RemoveService(s.ctx, s.id, "web"))
	if all, err := s.client.Services(s.ctx, s.id); err != nil || len(all) != 0 || s.page() != "" {
		t.Errorf("after the removal: %+v, %v", all, err)
	}
}

// TestServicesThatFail: a command that fails ends in failed, and its output can be read. An error of
// a wait names the service and ends with its output, and the session is gone.
func TestServicesThatFail(t *testing.T) {
	broken := protocol.Service{Name: "broken", Cmd: "echo no database; exit 3", Restart: "never"}
	s := withServices(t, server, protocol.SessionCreate{
		Services: []protocol.Service{
			broken,
			{Name: "missing", Argv: []string{"no-such-program"}, Restart: "never"},
			{
				Name: "late", Cmd: "echo starting; sleep 1; echo listening on 80; sleep 1000",
				Ready: &protocol.ServiceReady{Log: "^listening on [0-9]+$"},
			},
		},
	})
	v := s.reaches("broken", "failed")
	if v.Exit == nil || v.Exit.Code != 3 || s.log(v.Channel) != "no database\n" {
		t.Errorf("the service is %+v, its log is %q", v, s.log(v.Channel))
	}
	if v := s.reaches("missing", "failed"); v.Message == "" {
		t.Errorf("a service without a program: %+v", v)
	}
	s.reaches("late", "ready")

	before, err := s.client.Sessions(s.ctx)
	check(t, err)
	broken.Ready = &protocol.ServiceReady{Log: "listening"}
	_, err = s.client.CreateSession(s.ctx,
		protocol.SessionCreate{Services: []protocol.Service{broken}, WaitReady: true})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(),
		"the service broken will not be ready: its command ended with status 3; its last output: no database") {
		t.Errorf("a wait for a service that fails: %v", err)
	}
	after, err := s.client.Sessions(s.ctx)
	check(t, err)
	if len(after) > len(before) {
		t.Errorf("the session of the wait has stayed: %+v", after)
	}
	_, err = s.client.CreateSession(s.ctx, protocol.SessionCreate{
		Services: []protocol.Service{{
			Name: "silent", Cmd: "sleep 1000", Restart: "never",
			Ready: &protocol.ServiceReady{Port: 9, TimeoutSeconds: 1},
		}},
		WaitReady: true,
	})
	if err == nil || !strings.Contains(err.Error(),
		"the service silent will not be ready: it was not ready within 1s") {
		t.Errorf("a wait for a service that does not become ready: %v", err)
	}
	_, err = s.client.CreateSession(s.ctx, protocol.SessionCreate{
		Services: []protocol.Service{{Name: "x", Cmd: "true", Restart: "sometimes"}},
	})
	if !fault.Is(err, fault.InvalidArgument) {
		t.Errorf("a policy that does not exist: %v", err)
	}
}

// TestServicesIdle: a service that waits does not keep its session running, and the node does not
// resume the session for it.
func TestServicesIdle(t *testing.T) {
	t.Parallel() // most of the time it waits
	s := withServices(t, server, protocol.SessionCreate{
		Services:         []protocol.Service{webService()},
		IdlePauseSeconds: 1, IdleHibernateSeconds: 2, WaitReady: true,
	})
	is := func(state string) func() bool {
		return func() bool {
			found, err := s.client.Session(s.ctx, s.id)
			check(t, err)
			return found.State == state
		}
	}
	eventually(t, "the session hibernates", is("hibernated"))
	if got := s.page(); got != "hello\n" {
		t.Errorf("a request to the port: %q", got)
	}
	eventually(t, "the session hibernates again", is("hibernated"))
}

// TestServicesOfKilledServer: services of a durable session run again after the server was killed,
// also one whose process the copy on disk does not have.
func TestServicesOfKilledServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := Start(
		ctx, "pool: {size: 1, languages: [python]}\nsessions: {durable: true, durable_every: 1s}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	s := withServices(t, srv, protocol.SessionCreate{
		Services: []protocol.Service{webService()}, WaitReady: true,
	})
	begun := time.Now().UnixMilli()
	eventually(t, "a copy of the session", func() bool {
		found, err := s.client.Session(ctx, s.id)
		check(t, err)
		return found.KeptMS > begun
	})
	srv.killed(ctx, t)
	found, err := s.client.Session(ctx, s.id)
	check(t, err)
	if found.State != "hibernated" || found.RecoveredMS == 0 {
		t.Fatalf("the session was not recovered: %+v", found)
	}
	if got := s.page(); got != "hello\n" || s.state("web").State != "ready" {
		t.Errorf("after the recovery: %q, %+v", got, s.state("web"))
	}
	// A stop of the server writes the session to disk. Afterwards it has its services too.
	_, err = s.client.StopService(ctx, s.id, "web")
	check(t, err)
	check(t, srv.Halt(syscall.SIGTERM))
	check(t, srv.Boot(ctx))
	if v := s.state("web"); v.State != "stopped" {
		t.Errorf("after a restart: %+v", v)
	}
	v, err := s.client.StartService(ctx, s.id, "web", true)
	if err != nil || v.State != "ready" || s.page() != "hello\n" {
		t.Errorf("a start after a restart: %+v, %v", v, err)
	}
}

// TestServicesOfTemplate: a template declares services in its file. They run in each of its
// sessions, in sessions from a snapshot too, and the command line lists and changes them.
func TestServicesOfTemplate(t *testing.T) {
	ctx := deadline(t)
	file := write(t, filepath.Join(t.TempDir(), "template.yaml"), `
name: served
languages: [bash]
services:
  - name: web
    cmd: cd /tmp && echo template >index.html && exec python3 -u -m http.server 8000
    ready: {port: 8000}
  - name: worker
    argv: [sleep, "1000"]
    restart: on-failure
`)
	out, err := command(ctx, t, server, "template", "create", file)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() {
		out, err := command(context.WithoutCancel(ctx), t, server, "template", "delete", "served")
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}()
	s := withServices(t, server, protocol.SessionCreate{
		Template: "served", WaitReady: true,
		Services: []protocol.Service{{Name: "worker", Argv: []string{"sleep", "2000"}}},
	})
	if got := s.page(); got != "template\n" {
		t.Errorf("the page is %q", got)
	}
	if v := s.state("worker"); v.State != "ready" || v.Argv[1] != "2000" {
		t.Errorf("the service of the request: %+v", v)
	}
	do := func(args ...string) string {
		t.Helper()
		out, err := command(ctx, t, server, append([]string{"service"}, args...)...)
		if err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(out)
	}
	if got := do("list", "-q", s.id); got != "web\nworker" {
		t.Errorf("the list is %q", got)
	}
	if got := do("stop", s.id, "worker"); got != "stopped" {
		t.Errorf("a stop prints %q", got)
	}
	if got := do("set", "--restart", "never", "--ready-log", "^on$", "--wait", s.id, "echo", "--", "sh",
		"-c", "echo on; sleep 1000"); got != "ready" {
		t.Errorf("a new service is %q", got)
	}
	if got := do("logs", s.id, "echo"); got != "on" {
		t.Errorf("its log is %q", got)
	}
	do("rm", s.id, "echo")

	snap, err := s.client.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.id})
	check(t, err)
	defer func() { check(t, s.client.DeleteSnapshot(context.WithoutCancel(ctx), snap.ID)) }()
	again := withServices(t, server, protocol.SessionCreate{
		Snapshot: snap.ID, WaitReady: true,
		Services: []protocol.Service{{Name: "more", Argv: []string{"sleep", "1000"}}},
	})
	states := do("list", again.id)
	if again.page() != "template\n" || again.state("worker").State != "stopped" ||
		again.state("more").State != "ready" {
		t.Errorf("the services of a session from a snapshot:\n%s", states)
	}
}
