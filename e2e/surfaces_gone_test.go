package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestSurfacesClientGone disconnects clients while their programs run: the programs end, although
// they could run for longer, and the session continues.
func TestSurfacesClientGone(t *testing.T) {
	const pid = "echo $$ >/home/user/begun; exec sleep 1000"
	lobe := newSurfaceCall(t, "onlyboxes", "/onlyboxes/api/v1", "/commands/terminal", nil)
	lobe.first, lobe.next = lobeHubCommand(pid), lobeHubCommand("echo 42")
	lobe.first["timeout_ms"] = 600_000

	chat := newSurfaceCall(t, "librechat", "/librechat/v1", "/exec", nil)
	chat.first, chat.next = libreChatProgram(pid, "chat"), libreChatProgram("echo 42", "chat")
	chat.first["timeout"] = 120_000

	sandbox := newSurfaceCall(t, "opensandbox", "", "/command", nil)
	sandbox.caller = openSandboxCaller(t, sandbox)
	sandbox.first = map[string]any{"command": pid}
	sandbox.next = map[string]any{"command": "echo 42"}
	for _, c := range []surfaceCall{lobe, chat, sandbox} {
		c.kept = true
		c.leave()
		if text := c.shell("until [ -s begun ]; do sleep 0.02; done; timeout 60 bash -c " +
			"'while kill -0 $(cat begun); do sleep 0.05; done' && echo ended; rm begun"); text != "ended\n" {
			t.Errorf("%s: the program of a client that has gone continues", c.surface)
		}
		if text, err := c.send(c.next); err != nil || !strings.Contains(text, "42") {
			t.Errorf("%s: the next call: %s %v", c.surface, text, err)
		}
	}
	// Code has no time limit here: the next code runs only if the first one was interrupted.
	code := sandbox
	code.kept, code.path = true, "/code"
	code.first, code.next = openSandboxProgram(waitInPython), openSandboxProgram(nextInPython)
	code.leave()
	if text, err := code.send(code.next); err != nil || !strings.Contains(text, "42") {
		t.Errorf("the next code: %s %v", text, err)
	}
	once := newSurfaceCall(t, "librechat-run", "/librechat/v1", "/exec", nil)
	once.abandon(once.key, once.surface, once.path, libreChatProgram("sleep 100", ""))
}

// leave makes the first call, and disconnects once its program runs.
func (c surfaceCall) leave() {
	c.t.Helper()
	raw, err := json.Marshal(c.first)
	check(c.t, err)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.do(ctx, "POST", c.path, "application/json", bytes.NewReader(raw))
		ended <- err
	}()
	eventually(c.t, "the program of "+c.surface+" runs", c.begun)
	cancel()
	if err := <-ended; err == nil {
		c.t.Errorf("%s: the call of a client that has gone was answered", c.surface)
	}
}

// shell runs a command in the session of the call, and returns its output.
func (c surfaceCall) shell(command string) string {
	c.t.Helper()
	owner := &caller{c.t, c.ctx, "/v1/sessions/", func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}}
	var end struct{ Stdout string }
	if status := owner.json("POST", c.session()+"/exec", map[string]any{"cmd": command}, &end); status != 200 {
		c.t.Fatalf("%s: %d", command, status)
	}
	return end.Stdout
}
