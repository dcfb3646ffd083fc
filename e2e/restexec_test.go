package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// execREST runs a command over HTTP and returns the status and the result.
func execREST(t *testing.T, s *session, body map[string]any) (int, protocol.ExecResult) {
	t.Helper()
	var out protocol.ExecResult
	code, err := server.JSON(s.ctx, "POST", "/v1/sessions/"+s.id+"/exec", body, &out)
	check(t, err)
	return code, out
}

// running reports whether a process with that command line runs in the session.
func running(t *testing.T, s *session, command string) bool {
	t.Helper()
	all, err := s.client.Processes(s.ctx, s.id)
	check(t, err)
	for _, p := range all {
		if p.Command == command {
			return true
		}
	}
	return false
}

// TestExecOverHTTP runs commands with one request each and reads how they end.
func TestExecOverHTTP(t *testing.T) {
	s := open(t, server)
	exit := func(code int) *int { return &code }
	for name, x := range map[string]struct {
		body map[string]any
		want protocol.ExecResult
	}{
		"both streams in order": {
			map[string]any{"cmd": "echo a; sleep .1; echo b >&2; sleep .1; echo c; exit 3"},
			protocol.ExecResult{
				Status: "error", ExitCode: exit(3), Stdout: "a\nc\n", Stderr: "b\n",
				Output: []protocol.ExecOutput{
					{Stream: "stdout", Text: "a\n"},
					{Stream: "stderr", Text: "b\n"},
					{Stream: "stdout", Text: "c\n"},
				},
			},
		},
		"arguments, folder and environment": {
			map[string]any{
				"argv": []string{"sh", "-c", `echo "$0 $X" $(pwd)`, "a b"}, "cwd": "/tmp",
				"env": map[string]string{"X": "y"},
			},
			protocol.ExecResult{
				Status: "ok", ExitCode: exit(0), Stdout: "a b y /tmp\n",
				Output: []protocol.ExecOutput{{Stream: "stdout", Text: "a b y /tmp\n"}},
			},
		},
		"killed by a signal": {
			map[string]any{"cmd": "kill -SEGV $$"},
			protocol.ExecResult{Status: "killed", ExitCode: exit(139), Signal: "SIGSEGV"},
		},
		"no input": {
			map[string]any{"argv": []string{"cat"}},
			protocol.ExecResult{Status: "ok", ExitCode: exit(0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, got := execREST(t, s, x.body)
			if code != 200 || got.Session != s.id || got.Channel == "" || got.ElapsedMS <= 0 {
				t.Errorf("%d %+v", code, got)
			}
			got.Session, got.Channel, got.ElapsedMS = "", "", 0
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(x.want)
			if string(a) != string(b) {
				t.Errorf("got  %s\nwant %s", a, b)
			}
		})
	}
	if code, _ := execREST(t, s, map[string]any{"argv": []string{"no-such-program"}}); code != 404 {
		t.Errorf("a program that does not exist: %d", code)
	}
	if code, _ := execREST(t, s, map[string]any{}); code != 400 {
		t.Errorf("no command: %d", code)
	}
}

// TestExecInputAndOutput sends more input than may wait, and reads more output than the limit.
func TestExecInputAndOutput(t *testing.T) {
	s := open(t, server)
	input := strings.Repeat("0123456789abcde\n", 256<<10) // 4 MiB
	_, got := execREST(t, s, map[string]any{"cmd": "sleep .3; wc -lc", "stdin": input})
	if strings.Join(strings.Fields(got.Stdout), " ") != fmt.Sprint(256<<10, " ", len(input)) {
		t.Errorf("the input has %q: %+v", got.Stdout, got)
	}
	_, got = execREST(t, s, map[string]any{"argv": []string{"true"}, "stdin": input})
	if got.Status != "ok" {
		t.Errorf("a command that reads no input: %+v", got)
	}
	_, got = execREST(t, s, map[string]any{
		"cmd": "head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2", "max_output_bytes": 1000,
	})
	if len(got.Stdout) != 1000 || got.TruncatedBytes != 3_000_000-1000+4 || got.Status != "ok" {
		t.Errorf("%d bytes, %d truncated, %s", len(got.Stdout), got.TruncatedBytes, got.Status)
	}
	_, got = execREST(t, s, map[string]any{
		"cmd": "head -c 20000000 /dev/zero | tr '\\0' x", "max_output_bytes": 64 << 20,
	})
	if len(got.Stdout) != 20_000_000 || got.TruncatedBytes != 0 {
		t.Errorf("%d bytes, %d truncated", len(got.Stdout), got.TruncatedBytes)
	}
}

// TestExecTimeout ends a command that takes too long, with a child that ignores SIGTERM and has
// left the process group.
func TestExecTimeout(t *testing.T) {
	s := open(t, server)
	began := time.Now()
	_, got := execREST(t, s, map[string]any{
		"cmd":        "echo begun; trap '' TERM HUP; setsid sleep 4721 & sleep 4722; sleep 4723",
		"timeout_ms": 500,
	})
	if got.Status != "timeout" || got.Stdout != "begun\n" || time.Since(began) > 2*time.Minute {
		t.Errorf("%+v after %v", got, time.Since(began))
	}
	for _, command := range []string{"sleep 4721", "sleep 4722", "sleep 4723"} {
		if running(t, s, command) {
			t.Errorf("%s still runs", command)
		}
	}
}

// TestExecDisconnect disconnects while commands run: one is ended, the other continues.
func TestExecDisconnect(t *testing.T) {
	s := open(t, server)
	for number, on := range map[int]string{4731: "", 4732: "cancel", 4733: "detach"} {
		for kind, accept := range map[int]string{0: "application/json", 1: "application/x-ndjson"} {
			command := fmt.Sprintf("sleep %d%d", number, kind)
			body, err := json.Marshal(map[string]any{"cmd": "exec " + command, "on_disconnect": on})
			check(t, err)
			ctx, hangUp := context.WithCancel(s.ctx)
			req, err := http.NewRequestWithContext(ctx, "POST",
				server.URL+"/v1/sessions/"+s.id+"/exec", strings.NewReader(string(body)))
			check(t, err)
			req.Header.Set("Authorization", "Bearer "+server.Token)
			req.Header.Set("Accept", accept)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if res, err := http.DefaultClient.Do(req); err == nil {
					<-ctx.Done()
					res.Body.Close()
				}
			}()
			eventually(t, command+" runs", func() bool { return running(t, s, command) })
			hangUp()
			<-ended
			if on != "detach" {
				eventually(t, command+" is gone", func() bool { return !running(t, s, command) })
			}
		}
	}
	if !running(t, s, "sleep 47330") || !running(t, s, "sleep 47331") {
		t.Error("a command that should continue has ended")
	}
}

// TestExecDetached starts a command in the background and reads its output later.
func TestExecDetached(t *testing.T) {
	s := open(t, server)
	code, got := execREST(t, s, map[string]any{"cmd": "echo later; exec sleep 4741", "detach": true})
	if code != 202 || got.Channel == "" || got.Status != "" {
		t.Fatalf("%d %+v", code, got)
	}
	eventually(t, "it has printed", func() bool {
		out, _, _ := shellOut(t, s, "", "logs", s.id, got.Channel)
		return out == "later\n"
	})
	if !running(t, s, "sleep 4741") {
		t.Error("it does not run")
	}
}

// TestExecStreams reads output while the command runs.
func TestExecStreams(t *testing.T) {
	s := open(t, server)
	for _, accept := range []string{"application/x-ndjson", "text/event-stream"} {
		body := `{"cmd":"echo one; read x < go; echo two >&2; exit 5"}`
		_, made := execREST(t, s, map[string]any{"cmd": "rm -f go; mkfifo go"})
		if made.Status != "ok" {
			t.Fatal(made)
		}
		req, err := http.NewRequestWithContext(s.ctx, "POST",
			server.URL+"/v1/sessions/"+s.id+"/exec", strings.NewReader(body))
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+server.Token)
		req.Header.Set("Accept", accept)
		res, err := http.DefaultClient.Do(req)
		check(t, err)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != accept {
			t.Fatal(res.Status, res.Header)
		}
		var types []string
		var last protocol.ExecEvent
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			line := strings.TrimPrefix(lines.Text(), "data: ")
			if !strings.HasPrefix(line, "{") {
				continue
			}
			var e protocol.ExecEvent
			check(t, json.Unmarshal([]byte(line), &e))
			if e.Type == "keepalive" {
				continue
			}
			types, last = append(types, e.Type+" "+e.Text), e
			if e.Type == "stdout" { // the command waits until this event has arrived
				if _, got := execREST(t, s, map[string]any{"cmd": "echo > go"}); got.Status != "ok" {
					t.Fatal(got)
				}
			}
		}
		check(t, res.Body.Close())
		if strings.Join(types, "|") != "start |stdout one\n|stderr two\n|done " ||
			last.Status != "error" || last.ExitCode == nil || *last.ExitCode != 5 {
			t.Errorf("%s: %q, %+v", accept, types, last)
		}
	}
}
