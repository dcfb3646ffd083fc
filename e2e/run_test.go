package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// sandgate returns a command line with the server's address and token.
func sandgate(t *testing.T, ctx context.Context, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := Bin("sandgate")
	check(t, err)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token,
		"HOME="+t.TempDir())
	return cmd
}

// TestRunStreamsAndExits runs a program from the command line. Its output arrives
// while it runs, and its exit status is that of the command.
func TestRunStreamsAndExits(t *testing.T) {
	ctx := deadline(t)
	cmd := sandgate(t, ctx, "run", "../examples/hello.py", "one", "two", "three")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewScanner(out)
	var times []time.Time
	var words []string
	for lines.Scan() {
		words, times = append(words, lines.Text()), append(times, time.Now())
	}
	err = cmd.Wait()
	if strings.Join(words, " ") != "one two three" {
		t.Errorf("printed %q", words)
	}
	if len(times) == 3 && times[2].Sub(times[0]) < 200*time.Millisecond {
		t.Error("the lines arrived together")
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("ended with %v, want status 3", err)
	}
}

// TestReplKeepsState sends lines to the command line's REPL.
func TestReplKeepsState(t *testing.T) {
	cmd := sandgate(t, deadline(t), "repl", "python")
	cmd.Stdin = strings.NewReader(
		"x = 20\nfor i in range(2):\n    x += i\n    x += 0\n\nprint(x * 2)\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	contains(t, string(out), "42")

	// Output that follows its cell's end is shown too.
	cmd = sandgate(t, deadline(t), "repl", "python")
	cmd.Stdin = strings.NewReader(
		"import threading; go = threading.Event(); said = threading.Event()\n" +
			"threading.Thread(target=lambda: (go.wait(), print('late'), said.set())).start()\ngo.set(); said.wait(); None\n")
	out, err = cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	contains(t, string(out), "late")
}

// TestRunButton sends the request of the chat application, with its three kinds of answers.
func TestRunButton(t *testing.T) {
	ctx := deadline(t)
	type sessions struct {
		Sessions []struct{ ID, Name string } `json:"sessions"`
	}
	var before sessions
	_, err := server.Get(ctx, "/v1/sessions", &before)
	check(t, err)
	code := map[string]any{
		"language": "python",
		"code":     "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7",
	}
	ask := func(accept string, body any) (int, string) {
		t.Helper()
		raw, _ := json.Marshal(body)
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/run",
			strings.NewReader(string(raw)))
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+server.Token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", accept)
		res, err := http.DefaultClient.Do(req)
		check(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		check(t, err)
		return res.StatusCode, string(b)
	}
	for _, accept := range []string{
		"application/json", "application/x-ndjson",
		"text/event-stream",
	} {
		status, body := ask(accept, code)
		if status != 200 {
			t.Errorf("%s: %d %s", accept, status, body)
		}
		contains(t, body, "out", "err", "42", `"ok"`)
	}
	// The code is a program: it ends when its threads have ended.
	_, body := ask("application/json", map[string]any{
		"language": "python",
		"code":     "import atexit, threading, time\natexit.register(print, 'at', 'exit')\nthreading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()",
	})
	contains(t, body, `"stdout":"thread\nat exit\n"`, `"ok"`)
	started := time.Now()
	_, body = ask("application/json",
		map[string]any{"language": "python", "code": "while True: pass", "timeout_ms": 300})
	contains(t, body, "KeyboardInterrupt")
	if took := time.Since(started); took > 2*time.Minute {
		t.Errorf("a timeout of 300 ms took %v", took)
	}
	if status, body := ask("application/json",
		map[string]any{"language": "python", "code": 7}); status != 400 {
		t.Errorf("with a number as code: %d %s", status, body)
	}
	for {
		var list sessions
		_, err := server.Get(ctx, "/v1/sessions", &list)
		check(t, err)
		if len(list.Sessions) <= len(before.Sessions) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("sessions remain: %+v", list.Sessions)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestRunInASessionIsInterrupted disconnects while code runs in a session that exists
// before the run. The code is interrupted, and the kernel keeps its state.
func TestRunInASessionIsInterrupted(t *testing.T) {
	s := open(t, server)
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Minute)
	defer cancel()
	run := func(code string) *http.Response {
		t.Helper()
		raw, err := json.Marshal(map[string]any{
			"session": s.id, "language": "python", "code": code,
			"timeout_ms": 600_000,
		})
		check(t, err)
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/run",
			strings.NewReader(string(raw)))
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+server.Token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/x-ndjson")
		res, err := http.DefaultClient.Do(req)
		check(t, err)
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	for range 3 {
		res := run("kept = 41\nprint('begun', flush=True)\nwhile True: pass")
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), "begun") {
		}
		check(t, lines.Err())
		check(t, res.Body.Close())
		eventually(t, "the kernel runs the next cell", func() bool { // a cell that waits is aborted
			b, err := io.ReadAll(run("kept + 1").Body)
			check(t, err)
			return strings.Contains(string(b), "42")
		})
	}
}
