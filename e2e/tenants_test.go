package e2e

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestTenants creates keys with the command line, which survive a reload and a restart and
// end at once when they are revoked. The objects of one tenant do not exist for another.
func TestTenants(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [bash], memory: 0}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	bin, err := Bin("sandgate")
	check(t, err)
	// as runs the command line with a token, and returns what it prints.
	as := func(token string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, bin, args...)
		cmd.Env = []string{"HOME=" + srv.Dir, "SANDGATE_URL=" + srv.URL, "SANDGATE_TOKEN=" + token}
		var out, diag bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &diag
		err := cmd.Run()
		if err != nil {
			t.Logf("%v: %s", args, diag.String())
		}
		return strings.TrimSpace(out.String()), err
	}
	must := func(token string, args ...string) string {
		t.Helper()
		out, err := as(token, args...)
		check(t, err)
		return out
	}
	with := func(token string) *wire.Client {
		t.Helper()
		c, err := wire.New(srv.URL, token, wire.Options{})
		check(t, err)
		return c
	}

	ann := must(srv.Token, "key", "create", "--tenant", "acme", "--name", "Ann")
	eve := must(srv.Token, "key", "create", "--tenant", "evil", "--name", "Eve")
	driver := must(ann, "key", "create", "--role", "driver")
	if out := must(ann, "key", "ls"); strings.Count(out, "\n") != 2 ||
		!strings.Contains(out, "acme") || strings.Contains(out, "evil") {
		t.Errorf("an owner's keys:\n%s", out)
	}
	if out := must(srv.Token, "key", "ls", "--all"); !strings.Contains(out, "acme") ||
		!strings.Contains(out, "evil") {
		t.Errorf("all keys:\n%s", out)
	}
	for what, args := range map[string][]string{
		"a role of more": {"key", "create", "--role", "admin"},
		"another tenant": {"key", "create", "--tenant", "evil"},
		"all keys":       {"key", "ls", "--all"},
		"a quota":        {"tenant", "quota", "acme"},
	} {
		if _, err := as(ann, args...); err == nil ||
			err.(*exec.ExitError).ExitCode() != fault.PermissionDenied.Row().Exit {
			t.Errorf("%s: %v", what, err)
		}
	}
	file, err := os.ReadFile(filepath.Join(srv.Dir, "data", "tenants.json"))
	check(t, err)
	if info, err := os.Stat(filepath.Join(srv.Dir, "data", "tenants.json")); err != nil ||
		info.Mode().Perm() != 0o600 || bytes.Contains(file, []byte(ann)) {
		t.Errorf("the file of keys: %v %v", info.Mode(), err)
	}

	must(srv.Token, "tenant", "quota", "--max-sessions", "9", "*")
	if out := must(ann, "tenant", "ls"); !strings.Contains(out, "acme") ||
		!strings.Contains(out, "sessions 9") || strings.Contains(out, "evil") {
		t.Errorf("an owner's tenants:\n%s", out)
	}
	must(srv.Token, "tenant", "quota", "--clear", "*")
	if out := must(srv.Token, "tenant", "ls"); !strings.Contains(out, "evil") ||
		strings.Contains(out, "sessions 9") {
		t.Errorf("all tenants:\n%s", out)
	}

	// Ann creates one object of each kind. Eve requests it by its id.
	mine, theirs := with(ann), with(eve)
	s, err := mine.CreateSession(ctx, protocol.SessionCreate{Language: "bash", Name: "secret"})
	check(t, err)
	_, err = mine.Upload(ctx, s.ID, "a.txt", 0o644, strings.NewReader("mine"))
	check(t, err)
	snap, err := mine.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.ID, Name: "kept"})
	check(t, err)
	keys, err := mine.Keys(ctx, protocol.KeyQuery{})
	check(t, err)
	no := strings.Repeat("a", 26)
	// Each request is sent with Ann's id and with an id that never existed.
	for _, c := range []struct{ method, path, body, id, none string }{
		{"GET", "/v1/sessions/%", "", s.ID, "s_" + no},
		{"PATCH", "/v1/sessions/%", `{"name":"x"}`, s.ID, "s_" + no},
		{"DELETE", "/v1/sessions/%", "", s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/pause", "", s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/hibernate", "", s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/resume", "", s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/keepalive", `{}`, s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/fork", `{}`, s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/snapshots", `{}`, s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/channels", "", s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/channels", `{"kind":"terminal"}`, s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/channels/k1/cast", "", s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/processes", "", s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/processes/1/signal", `{"signal":"SIGKILL"}`, s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/ports", "", s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/ports", `{"port":80}`, s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/ports/80/", "", s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/files/a.txt", "", s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/files/a.txt?stat", "", s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/files/?list", "", s.ID, "s_" + no},
		{"GET", "/v1/sessions/%/files/?archive=tar", "", s.ID, "s_" + no},
		{"PUT", "/v1/sessions/%/files/a.txt", "theirs", s.ID, "s_" + no},
		{"POST", "/v1/sessions/%/files/b", `{"op":"mkdir"}`, s.ID, "s_" + no},
		{"DELETE", "/v1/sessions/%/files/a.txt", "", s.ID, "s_" + no},
		{"POST", "/v1/run/%/input", `{"channel":"k1","cell":1,"value":"x"}`, s.ID, "s_" + no},
		{"POST", "/v1/run/%/interrupt", `{"channel":"k1"}`, s.ID, "s_" + no},
		{"GET", "/v1/snapshots/%", "", snap.ID, "n_" + no},
		{"GET", "/v1/snapshots/%", "", "kept", "notkept"},
		{"DELETE", "/v1/snapshots/%", "", snap.ID, "n_" + no},
		{"POST", "/v1/sessions", `{"snapshot":"%"}`, snap.ID, "n_" + no},
		{"GET", "/v1/templates/%", "", "t", "u"},
		{"DELETE", "/v1/templates/%", "", "t", "u"},
		{"DELETE", "/v1/keys/%", "", keys[0].ID, no[:16]},
		{"POST", "/v1/keys/%/rotate", "", keys[0].ID, no[:16]},
	} {
		ask := func(id string) (int, http.Header, string) {
			req, err := http.NewRequestWithContext(ctx, c.method, srv.URL+
				strings.ReplaceAll(c.path, "%", id),
				strings.NewReader(strings.ReplaceAll(c.body, "%", id)))
			check(t, err)
			req.Header.Set("Authorization", "Bearer "+eve)
			resp, err := http.DefaultClient.Do(req)
			check(t, err)
			defer resp.Body.Close()
			var b bytes.Buffer
			_, err = b.ReadFrom(resp.Body)
			check(t, err)
			resp.Header.Del("Date")
			return resp.StatusCode, resp.Header, b.String()
		}
		status, header, body := ask(c.id)
		wantStatus, wantHeader, wantBody := ask(c.none)
		if status != http.StatusNotFound || status != wantStatus || body != wantBody ||
			!sameHeader(header, wantHeader) {
			t.Errorf("%s %s: %d %s, and for an id that never existed %d %s", c.method, c.path,
				status, body, wantStatus, wantBody)
		}
	}
	conn, err := theirs.Connect(ctx)
	check(t, err)
	defer conn.Close()
	if all, err := theirs.Sessions(ctx); err != nil || len(all) != 0 {
		t.Errorf("Eve's sessions: %v, %v", all, err)
	}
	if all, err := theirs.Snapshots(ctx); err != nil || len(all) != 0 {
		t.Errorf("Eve's snapshots: %v, %v", all, err)
	}
	if all, err := theirs.Tenants(ctx); err != nil || len(all) != 1 || all[0].Name != "evil" {
		t.Errorf("Eve's tenants: %v, %v", all, err)
	}
	if v, err := mine.Session(ctx, s.ID); err != nil || v.Name != "secret" || v.State != "running" {
		t.Errorf("Ann's session after these requests: %+v, %v", v, err)
	}

	// A driver may run cells and write files in the session, but may not end it.
	by := with(driver)
	if _, err := by.Upload(ctx, s.ID, "b.txt", 0o644, strings.NewReader("x")); err != nil {
		t.Errorf("a driver's file: %v", err)
	}
	if err := by.DeleteSession(ctx, s.ID); !fault.Is(err, fault.PermissionDenied) {
		t.Errorf("a driver ends a session: %v", err)
	}

	// Keys survive a restart, and a file that was replaced is read at once.
	check(t, srv.Halt(syscall.SIGTERM))
	check(t, srv.Boot(ctx))
	if _, err := mine.Session(ctx, s.ID); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	check(t, os.WriteFile(filepath.Join(srv.Dir, "data", "tenants.json"), file, 0o600))
	cmd := exec.CommandContext(ctx, bin, "reload", "--config", srv.Config)
	cmd.Env = []string{"HOME=" + srv.Dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("reload: %s", out)
	}
	id := must(ann, "key", "ls", "-q")
	id, _, _ = strings.Cut(id, "\n")
	second := must(srv.Token, "key", "rotate", id)
	if _, err := mine.Session(ctx, s.ID); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("the former secret: %v", err)
	}
	must(second, "key", "revoke", id)
	if _, err := with(second).Session(ctx, s.ID); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a revoked key: %v", err)
	}
	for _, event := range []string{`"event":"key.create"`, `"event":"key.revoke"`, `"key":"` + id +
		`"`} {
		eventually(t, "the audit log has "+event, func() bool {
			audit, err := os.ReadFile(filepath.Join(srv.Dir, "data", "audit", "audit.jsonl"))
			check(t, err)
			return bytes.Contains(audit, []byte(event))
		})
	}
}

func sameHeader(a, b http.Header) bool {
	if len(a) != len(b) {
		return false
	}
	for name := range a {
		if strings.Join(a[name], ",") != strings.Join(b[name], ",") {
			return false
		}
	}
	return true
}

// TestQuotaOfSnapshotsAndDisk checks that the disk space of a tenant is limited too, and
// that its own idle sessions are evicted for its next session.
func TestQuotaOfSnapshotsAndDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [bash], memory: 0}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	root, err := wire.New(srv.URL, srv.Token, wire.Options{})
	check(t, err)
	k, err := root.CreateKey(ctx, protocol.KeyCreate{Tenant: "acme", Role: "owner"})
	check(t, err)
	c, err := wire.New(srv.URL, k.Secret, wire.Options{})
	check(t, err)
	quota := func(q protocol.Quota) {
		t.Helper()
		check(t, root.SetQuota(ctx, "acme", &q))
	}
	over := func(what, quota string, err error) {
		t.Helper()
		p := fault.PublicOf(err)
		if p.Kind != fault.Exhausted || p.Field != "quota."+quota || p.RetryAfter == 0 {
			t.Errorf("%s: %+v", what, p)
		}
	}
	s, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
	check(t, err)
	quota(protocol.Quota{Snapshots: 1, Running: 1})
	snap, err := c.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.ID})
	check(t, err)
	_, err = c.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.ID})
	over("a second snapshot", "snapshots", err)
	_, err = c.ForkSession(ctx, protocol.SessionFork{Session: s.ID, Count: 2})
	over("two forks", "running", err)
	quota(protocol.Quota{DiskBytes: 1})
	_, err = c.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
	over("a session without disk", "disk_bytes", err)
	_, err = c.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.ID})
	over("a snapshot without disk", "disk_bytes", err)
	check(t, c.DeleteSnapshot(ctx, snap.ID))

	// The first session is idle after a second, and is hibernated for another one.
	quota(protocol.Quota{Running: 1})
	var second protocol.Session
	for {
		if second, err = c.CreateSession(ctx,
			protocol.SessionCreate{Language: "bash"}); err == nil {
			break
		}
		over("while the first is at work", "running", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the first session is not evicted")
		}
	}
	if v, err := c.Session(ctx, s.ID); err != nil || v.State != "hibernated" {
		t.Errorf("the first session: %+v, %v", v, err)
	}
	all, err := c.Tenants(ctx)
	check(t, err)
	if u := all[0].Use; len(all) != 1 || u.Sessions != 2 || u.Running != 1 || u.Snapshots != 0 ||
		u.DiskBytes == 0 || u.MemoryBytes == 0 || u.CPUs == 0 {
		t.Errorf("in use: %+v", all)
	}
	_ = second
	// The server's metrics show it.
	resp, err := srv.Do(ctx, "GET", "/metrics", nil)
	check(t, err)
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	check(t, err)
	for _, want := range []string{
		`sandgate_node_quota_refused_total{quota="snapshots"} 1`,
		`sandgate_node_quota_refused_total{quota="disk_bytes"} 2`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
