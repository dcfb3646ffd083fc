package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// TestReload changes the settings of a running server. It applies the settings that
// it can, names those that need a restart, and changes nothing if a setting is
// invalid. Then a token is rotated. A cell runs all the time, on one connection.
func TestReload(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}\nsessions: {max: 1, queue: 0}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	bin, err := Bin("sandgate")
	check(t, err)
	sandgate := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, bin, append(args, "--config", srv.Config)...)
		cmd.Env = []string{"HOME=" + srv.Dir}
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	settings, err := os.ReadFile(srv.Config)
	check(t, err)
	write := func(text string) {
		check(t, os.WriteFile(srv.Config, []byte(text), 0o644))
	}
	status := func(token, host string) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1", nil)
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		if host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		check(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	s := open(t, srv)
	cell := s.begin(
		"import time\nwhile not open('stop', 'a+').seek(0, 2):\n    print(1, flush=True); time.sleep(0.05)")

	if got, err := sandgate("reload"); err != nil || got != "nothing has changed" {
		t.Errorf("without a change: %q, %v", got, err)
	}
	if status(srv.Token, "code.example.org") != http.StatusForbidden {
		t.Error("a foreign Host is answered")
	}
	if _, err := s.client.CreateSession(ctx, protocol.SessionCreate{}); err == nil {
		t.Error("a second session exceeds the limit")
	}
	changed := strings.Replace(string(settings), "max: 1,", "max: 2,", 1) +
		"log: {level: debug}\nallowed_hosts: [code.example.org]\nlimits: {memory: 2GiB}\n"
	write(changed)
	if got, err := sandgate("reload"); err != nil ||
		got != "applied: allowed_hosts, sessions.max, log.level; waits for a restart: limits.memory" {
		t.Errorf("the reload: %q, %v", got, err)
	}
	if got := status(srv.Token, "code.example.org"); got != http.StatusOK {
		t.Errorf("the new Host: %d", got)
	}
	second, err := s.client.CreateSession(ctx, protocol.SessionCreate{})
	check(t, err)
	check(t, s.client.DeleteSession(ctx, second.ID))
	write(changed + "no_such_setting: 1\n")
	if got, err := sandgate("reload"); err == nil || !strings.Contains(got, "no_such_setting") {
		t.Errorf("an invalid file: %q, %v", got, err)
	}
	if got := status(srv.Token, "code.example.org"); got != http.StatusOK {
		t.Errorf("after an invalid file: %d", got)
	}
	// The next gateway gets the settings that this one was sent.
	pid, err := srv.Child("gateway")
	check(t, err)
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	check(t, srv.Warm(ctx))
	if got := status(srv.Token, "code.example.org"); got != http.StatusOK {
		t.Errorf("after the gateway's end: %d", got)
	}
	// SIGHUP restores the former setting.
	write(string(settings))
	check(t, syscall.Kill(srv.PID(), syscall.SIGHUP))
	eventually(t, "the reload by SIGHUP", func() bool {
		return status(srv.Token, "code.example.org") == http.StatusForbidden
	})
	if got, err := sandgate("reload", "--with-log-level", "warn"); err != nil ||
		got != "applied: log.level" {
		t.Errorf("the level: %q, %v", got, err)
	}

	// The client reconnects with the token that is still valid.
	eventually(t, "the client reconnects", func() bool { return s.conn.Reconnects() > 0 })
	old := srv.Token
	out, err := sandgate("token", "--rotate", "--keep", "1h")
	check(t, err)
	read := func() string {
		b, err := os.ReadFile(srv.Dir + "/data/token")
		check(t, err)
		return strings.TrimSpace(string(b))
	}
	if srv.Token = read(); srv.Token == old || !strings.Contains(out, srv.Token) {
		t.Errorf("the token was not rotated: %s", out)
	}
	if a, b := status(srv.Token, ""), status(old, ""); a != http.StatusOK || b != http.StatusOK {
		t.Errorf("the new token %d, the old one %d", a, b)
	}
	next := srv.Token
	_, err = sandgate("token", "--rotate", "--keep", "0s")
	check(t, err)
	srv.Token = read()
	for i, token := range []string{old, next} {
		if got := status(token, ""); got != http.StatusUnauthorized {
			t.Errorf("token %d: %d", i, got)
		}
	}
	c, err := wire.New(srv.URL, srv.Token, wire.Options{})
	check(t, err)
	// The connection of the first token continues, and so does its cell.
	before := s.conn.Reconnects()
	_, err = c.Upload(ctx, s.id, "stop", 0, strings.NewReader("now"))
	check(t, err)
	if got := s.collect(cell, nil); got.reply.Status != "ok" || s.conn.Reconnects() != before ||
		before > 1 {
		t.Errorf("the cell: %+v, %d reconnects", got.reply, s.conn.Reconnects())
	}
}
