package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/notebook"
)

// TestGoClientLife runs the scenarios with sessions of their own.
func TestGoClientLife(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	c := goClient(t, client.Options{})
	s := goSandbox(t, c, client.SandboxOptions{
		Labels: map[string]string{"scenario": "go-life"},
	})
	goRun(t, s, "x = 1")
	t.Run("fork", func(t *testing.T) {
		copies, err := s.Fork(ctx, 2)
		check(t, err)
		for _, other := range copies {
			defer func() { check(t, other.Close()) }()
		}
		goRun(t, copies[0], "x += 1")
		equal(t, "values", goRun(t, s, "x")+goRun(t, copies[0], "x")+goRun(t, copies[1], "x"), "121")
	})
	t.Run("snapshot", func(t *testing.T) {
		first := must(c.Sandbox(ctx, client.SandboxOptions{}))(t)
		goRun(t, first, "x = 7")
		saved := must(first.Snapshot(ctx))(t)
		defer func() { check(t, c.Snapshots.Delete(ctx, saved.ID)) }()
		check(t, first.Close()) // it has no name, so it is deleted
		_, err := c.GetSandbox(ctx, first.ID())
		equal(t, "a closed sandbox", fault.KindOf(err), fault.NotFound)
		started := goSandbox(t, c, client.SandboxOptions{Snapshot: saved.ID})
		equal(t, "variable", goRun(t, started, "x"), "7")
		equal(t, "id", must(c.Snapshots.Get(ctx, saved.ID))(t).ID, saved.ID)
	})
	t.Run("pause_resume", func(t *testing.T) {
		equal(t, "paused", must(s.Pause(ctx))(t).State, "paused")
		equal(t, "variable", goRun(t, s, "x"), "1")
		equal(t, "hibernated", must(s.Hibernate(ctx))(t).State, "hibernated")
		equal(t, "variable", goRun(t, s, "x"), "1")
		must(s.Hibernate(ctx))(t)
		equal(t, "resumed", must(s.Resume(ctx))(t).State, "running")
		equal(t, "refreshed", must(s.Refresh(ctx))(t).State, "running")
	})
	t.Run("volumes", func(t *testing.T) {
		name := "go-" + s.ID()[:8]
		must(c.Volumes.Ensure(ctx, name, 0))(t)
		must(c.Volumes.Ensure(ctx, name, 0))(t)
		one := must(c.Sandbox(ctx, client.SandboxOptions{
			Volumes: []protocol.Mount{{Name: name}},
		}))(t)
		must(one.Exec(ctx, "echo kept > /volumes/"+name+"/x"))(t)
		check(t, one.Close())
		two := must(c.Sandbox(ctx, client.SandboxOptions{
			Volumes: []protocol.Mount{{Name: name, Path: "/home/user/data"}},
		}))(t)
		equal(t, "content", must(two.Exec(ctx, "cat data/x"))(t).Stdout, "kept\n")
		lease := must(c.Volumes.Lease(ctx, protocol.VolumeLease{Name: name}))(t)
		check(t, c.Volumes.Release(ctx, name, lease.Token))
		check(t, two.Close())
		check(t, c.Volumes.Delete(ctx, name))
	})
	t.Run("notebooks", func(t *testing.T) { goNotebooks(ctx, t, c, s) })
	t.Run("run_once", func(t *testing.T) {
		r, err := c.Run(ctx, protocol.RunRequest{
			Code:  "import os; print(open('in').read() + os.environ['A']); open('out', 'w').write('o')",
			Files: []protocol.RunFile{{Path: "in", Content: "i"}}, Env: map[string]string{"A": "a"},
		})
		check(t, err)
		equal(t, "stdout", r.Stdout(), "ia\n")
		if len(r.Files) != 1 || r.Files[0].Content != "bw==" {
			t.Errorf("files: %+v", r.Files)
		}
	})
	t.Run("idempotent_create", func(t *testing.T) {
		var ids, texts []string
		for range 2 {
			p, err := s.Start(ctx, "sleep 600", client.ExecOptions{Key: "one-process"})
			check(t, err)
			ids = append(ids, p.ID)
			r, err := s.Run(ctx, "x += 1; x", client.RunOptions{Key: "one-run"})
			check(t, err)
			texts = append(texts, r.Text())
		}
		equal(t, "processes", ids[0], ids[1])
		equal(t, "values", strings.Join(texts, " "), "2 2")
		equal(t, "variable", goRun(t, s, "x"), "2")
		// The first reply to the request for a webhook is lost.
		name := "go-once-" + s.ID()[2:8]
		far := goClient(t, client.Options{HTTP: &http.Client{Transport: &lossy{
			RoundTripper: http.DefaultTransport, method: http.MethodPost, path: "/v1/webhooks",
		}}})
		hook, err := far.Webhooks.Create(ctx, protocol.WebhookCreate{
			URL: "https://hooks.example/" + name,
		})
		check(t, err)
		all := must(c.Webhooks.List(ctx))(t)
		n := 0
		for _, h := range all {
			if strings.HasSuffix(h.URL, name) {
				n++
				equal(t, "id", h.ID, hook.ID)
				check(t, c.Webhooks.Delete(ctx, h.ID))
			}
		}
		equal(t, "webhooks", n, 1)
	})
	t.Run("usage", func(t *testing.T) {
		sums := must(c.Usage(ctx, protocol.UsageQuery{By: "label:scenario"}))(t)
		if !slices.ContainsFunc(sums, func(u protocol.UsageSum) bool {
			return u.Key == "go-life" && u.Sessions > 0
		}) {
			t.Errorf("sums: %+v", sums)
		}
	})
	t.Run("series", func(t *testing.T) {
		points := must(s.Series(ctx, protocol.SeriesQuery{}))(t)
		if !slices.IsSortedFunc(points, func(a, b protocol.SeriesPoint) int {
			return a.Time.Compare(b.Time)
		}) {
			t.Errorf("points: %+v", points)
		}
	})
	t.Run("audit", func(t *testing.T) {
		found := false
		for e, err := range c.Audit(ctx, protocol.AuditQuery{Session: s.ID()}) {
			check(t, err)
			found = found || e.Event == protocol.OpSessionCreate
		}
		equal(t, "the creation is in the audit log", found, true)
	})
	t.Run("events", func(t *testing.T) {
		var cursor string
		for e, err := range c.Events(ctx, client.EventOptions{
			After: client.Oldest, Session: s.ID(), Present: true,
		}) {
			check(t, err)
			if cursor == "" {
				equal(t, "the first event", e.Type, protocol.FeedSessionCreated)
			}
			cursor = e.ID
		}
		go func() { _, _ = s.Hibernate(ctx) }()
		for e, err := range c.Events(ctx, client.EventOptions{After: cursor, Session: s.ID()}) {
			check(t, err)
			if e.Type == protocol.FeedSessionHibernated {
				break
			}
		}
	})
}

// TestGoClientTemplates runs the scenarios of templates.
func TestGoClientTemplates(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	c := goClient(t, client.Options{})
	build := func(t *testing.T, tmpl *client.Template, o ...client.BuildOptions) *client.Sandbox {
		t.Helper()
		name := "go-" + strings.ToLower(rand.Text()[:12])
		t.Cleanup(func() { _ = c.Templates.Delete(context.WithoutCancel(ctx), name) })
		info, err := c.Templates.Build(ctx, name, tmpl, o...)
		check(t, err)
		equal(t, "state", info.State, "ready")
		return goSandbox(t, c, client.SandboxOptions{Template: name})
	}
	t.Run("template_builder", func(t *testing.T) {
		s := build(t, client.NewTemplate("python").Describe("a scenario").Env("A", "b").
			Run("echo 5 > five").File("lib/mine.py", []byte("n = 7")).
			Code("import sys; sys.path.insert(0, 'lib')").Code("from mine import n").
			Service(protocol.Service{Name: "web", Cmd: "python3 -m http.server 8500"}).
			Limits(protocol.Limits{CPUs: 1}).Bare())
		equal(t, "values", goRun(t, s, "import os; n, os.environ['A'], open('five').read()"),
			`(7, 'b', '5\n')`)
		equal(t, "service", must(s.Services.List(ctx))(t)[0].Name, "web")
	})
	t.Run("template_yaml", func(t *testing.T) {
		text := "languages: [python]\nbare: true\nenv:\n  A: b\ncode: |\n  import lib\n  x = lib.n\n"
		s := build(t, client.NewTemplate().FromYAML(text).File("lib.py", []byte("n = 7")))
		equal(t, "values", goRun(t, s, "import os; x, os.environ['A']"), "(7, 'b')")
		_, err := c.Templates.Build(ctx, "none", client.NewTemplate().FromYAML("lang: [python]"))
		equal(t, "the wrong field", fault.PublicOf(err).Field, "lang")
		_, err = c.Templates.Build(ctx, "none", client.NewTemplate().FromYAML("{}").Code("1"))
		equal(t, "fields twice", fault.KindOf(err), fault.InvalidArgument)
	})
	t.Run("template_upload", func(t *testing.T) {
		dir := t.TempDir()
		content := make([]byte, 8<<20)
		_, _ = rand.Read(content)
		check(t, os.WriteFile(filepath.Join(dir, "big"), content, 0o600))
		s := build(t, client.NewTemplate("python").Bare().Folder(dir, "data"))
		got := must(s.Files.Read(ctx, "data/big"))(t)
		equal(t, "equal", slices.Equal(got, content), true)
	})
	t.Run("template_progress", func(t *testing.T) {
		var log strings.Builder
		reached := ""
		name := "go-progress"
		t.Cleanup(func() { _ = c.Templates.Delete(context.WithoutCancel(ctx), name) })
		_, err := c.Templates.Build(ctx, name, client.NewTemplate("python").Bare().
			Run("echo first; sleep 2; echo second"), client.BuildOptions{
			OnLog: func(text string) {
				log.WriteString(text)
				if reached == "" && strings.Contains(text, "first") {
					reached = must(c.Templates.Get(ctx, name))(t).State
				}
			},
		})
		check(t, err)
		equal(t, "the state at the first output", reached, "building")
		equal(t, "second", strings.Contains(log.String(), "second"), true)
		_, err = c.Templates.Build(ctx, name,
			client.NewTemplate("python").Bare().Run("echo broken; exit 3"))
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "broken") {
			t.Errorf("a broken template: %v", err)
		}
	})
}

// TestGoClientAccess runs the scenarios of keys, tickets and webhooks.
func TestGoClientAccess(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	c := goClient(t, client.Options{})
	s := goSandbox(t, c, client.SandboxOptions{})
	sessions := func(c *client.Client) error {
		return errorOf(c.Sessions(ctx, protocol.SessionQuery{}))
	}
	t.Run("keys", func(t *testing.T) {
		made := must(c.Keys.Create(ctx, protocol.KeyCreate{Role: "driver", Name: "scenario"}))(t)
		check(t, sessions(goClient(t, client.Options{Token: made.Secret})))
		turned := must(c.Keys.Rotate(ctx, made.Key.ID, 0))(t)
		equal(t, "another secret", turned.Secret != made.Secret, true)
		check(t, c.Keys.Revoke(ctx, made.Key.ID))
		for _, secret := range []string{made.Secret, turned.Secret} {
			err := sessions(goClient(t, client.Options{Token: secret}))
			equal(t, "a revoked key", fault.KindOf(err), fault.Unauthenticated)
		}
		if len(must(c.Tenants.List(ctx))(t)) == 0 {
			t.Error("there is no tenant")
		}
	})
	t.Run("tickets", func(t *testing.T) {
		ticket := must(c.Tickets.Create(ctx))(t).Ticket
		check(t, sessions(goClient(t, client.Options{Ticket: ticket})))
		err := sessions(goClient(t, client.Options{Ticket: ticket}))
		equal(t, "a used ticket", fault.KindOf(err), fault.Unauthenticated)
	})
	t.Run("run_ticket", func(t *testing.T) {
		const origin = "https://chat.example"
		ticket := must(c.Tickets.CreateRun(ctx, client.RunTicketOptions{
			Origin: origin, Uses: 2, Session: s.ID(),
		}))(t)
		var last protocol.RunResult
		for _, code := range []string{"from_button = 41", "print(from_button + 1)"} {
			body, err := json.Marshal(protocol.RunRequest{Code: code})
			check(t, err)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/run",
				strings.NewReader(string(body)))
			check(t, err)
			req.Header = http.Header{
				"Authorization": {"Bearer " + ticket.Ticket}, "Origin": {origin},
				"Content-Type": {"application/json"},
			}
			resp, err := http.DefaultClient.Do(req)
			check(t, err)
			equal(t, "status", resp.StatusCode, http.StatusOK)
			check(t, json.NewDecoder(resp.Body).Decode(&last))
			check(t, resp.Body.Close())
		}
		equal(t, "output", last.Stdout, "42\n")
		equal(t, "variable", goRun(t, s, "from_button"), "41")
	})
	t.Run("webhooks", goWebhooks)
	t.Run("run_input", func(t *testing.T) {
		var start protocol.RunEvent
		var out strings.Builder
		for e, err := range c.Stream(ctx, protocol.RunRequest{
			Code: "print('hello', input('n? '))", Interactive: true,
		}) {
			check(t, err)
			switch e.Type {
			case "start":
				start = e
			case "input_request":
				check(t, c.RunInput(ctx, protocol.RunInput{
					Session: start.Session, Channel: start.Channel, Cell: start.Cell, Value: "Ada",
				}))
			case "stdout":
				out.WriteString(e.Text)
			}
		}
		equal(t, "output", out.String(), "hello Ada\n")
	})
}

// goWebhooks registers a webhook, and verifies the request that it gets.
func goWebhooks(t *testing.T) {
	ctx := deadline(t)
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}\nwebhooks: {allow: [127.0.0.0/8]}")
	check(t, err)
	t.Cleanup(func() { check(t, srv.Stop()) })
	c := goClient(t, client.Options{URL: srv.URL, Token: srv.Token})
	type request struct {
		body      []byte
		signature string
	}
	got := make(chan request, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{body, r.Header.Get("Sandgate-Signature")}
	}))
	defer receiver.Close()
	hook := must(c.Webhooks.Create(ctx, protocol.WebhookCreate{
		URL: receiver.URL, Types: "session.*",
	}))(t)
	must(c.Webhooks.Test(ctx, hook.ID))(t)
	var r request
	select {
	case r = <-got:
	case <-ctx.Done():
		t.Fatal("no request arrived")
	}
	event, err := client.VerifyWebhook(r.body, r.signature, hook.Secret)
	check(t, err)
	equal(t, "type", event.Type, "webhook.test")
	for what, err := range map[string]error{
		"another body":   errorOnly(client.VerifyWebhook(append(r.body, ' '), r.signature, hook.Secret)),
		"another secret": errorOnly(client.VerifyWebhook(r.body, r.signature, "other")),
		"another time": errorOnly(client.VerifyWebhook(r.body,
			strings.Replace(r.signature, "t=", "t=1", 1), hook.Secret)),
	} {
		equal(t, what, fault.KindOf(err), fault.Unauthenticated)
	}
	off := true
	updated := must(c.Webhooks.Update(ctx,
		protocol.WebhookUpdate{Webhook: hook.ID, Disabled: &off}))(t)
	equal(t, "disabled", updated.Disabled, true)
	turned := must(c.Webhooks.Rotate(ctx, hook.ID, time.Minute))(t)
	equal(t, "another secret", turned.Secret != hook.Secret, true)
	equal(t, "resent", must(c.Webhooks.Resend(ctx, hook.ID, ""))(t), 0)
	check(t, c.Webhooks.Delete(ctx, hook.ID))
	_, err = c.Webhooks.Get(ctx, hook.ID)
	equal(t, "a deleted webhook", fault.KindOf(err), fault.NotFound)
}

func errorOnly[T any](_ T, err error) error { return err }

// lossy loses the first response to a request.
type lossy struct {
	http.RoundTripper
	method, path string
	once         sync.Once
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == l.method && r.URL.Path == l.path {
		l.once.Do(func() {
			_ = resp.Body.Close()
			resp, err = nil, io.ErrUnexpectedEOF
		})
	}
	return resp, err
}

// goNotebooks saves a notebook of several parts and reads its versions.
func goNotebooks(ctx context.Context, t *testing.T, c *client.Client, s *client.Sandbox) {
	first, second := `{"cells": []}`, `{"cells": [], "x": "`+strings.Repeat("ä", 200_000)+`"}`
	must(s.Files.Write(ctx, "go.ipynb", []byte(first)))(t)
	saved := must(c.Notebooks.List(ctx, s.ID()))(t)
	equal(t, "notebooks", len(saved), 1)
	id := saved[0].ID
	closed := notebook.Naming{
		Notebook: id, Version: must(c.Notebooks.Versions(ctx, id))(t)[0].ID, Closed: true,
	}
	must(c.Notebooks.Name(ctx, closed))(t)
	must(s.Files.Write(ctx, "go.ipynb", []byte(second)))(t)
	versions := must(c.Notebooks.Versions(ctx, id))(t)
	equal(t, "versions", len(versions), 2)
	equal(t, "oldest", versions[1].ID, closed.Version)
	closed.Name = "empty"
	equal(t, "name", must(c.Notebooks.Name(ctx, closed))(t).Name, "empty")
	equal(t, "old text", must(c.Notebooks.Read(ctx, id, closed.Version))(t), first)
	equal(t, "new text", must(c.Notebooks.Read(ctx, id, ""))(t) == second, true)
	check(t, c.Notebooks.Delete(ctx, id))
	_, err := c.Notebooks.Read(ctx, id, "")
	equal(t, "a deleted notebook", fault.KindOf(err), fault.NotFound)
}
