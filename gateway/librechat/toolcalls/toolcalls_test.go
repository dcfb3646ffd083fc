package toolcalls

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestFunctions makes identifiers of names of tools.
func TestFunctions(t *testing.T) {
	for _, x := range [][3]string{
		{Python, "get-weather", "get_weather"},
		{Python, "a b.c", "a_b_c"},
		{Python, "3d", "_3d"},
		{Python, "class", "class_tool"},
		{Python, "echo", "echo"},
		{Bash, "echo", "echo_tool"},
		{Bash, "x;rm -rf /", "xrm__rf_"},
		{Python, "é", "tool"},
	} {
		if got := Function(x[0], x[1]); got != x[2] {
			t.Errorf("%s in %s is %s, should be %s", x[1], x[0], got, x[2])
		}
	}
	if _, err := Functions(Python, []string{"a-b", "a b"}); fault.PublicOf(err).Field != "tools" {
		t.Error("two tools with one name: ", err)
	}
	if all, err := Functions(Python, []string{"a-b", "a-b"}); err != nil || len(all) != 1 {
		t.Error("a tool that is named twice: ", all, err)
	}
}

// supervised is a program under a supervisor on this machine.
type supervised struct {
	*testing.T
	folder string
	in     io.Writer
	out    *bufio.Reader
}

func start(t *testing.T, language, code string) *supervised {
	t.Helper()
	dir, err := os.MkdirTemp("", "t") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tools, err := Functions(language, []string{"get-weather"})
	if err != nil {
		t.Fatal(err)
	}
	p := Program{Language: language, File: dir + "/main", Tools: tools, MaxOutput: 100}
	files, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	files[p.File] = code
	for path, text := range files {
		text = strings.ReplaceAll(text, Folder, dir)
		path = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("python3", "-u", dir+"/supervisor.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &supervised{t, dir, in, bufio.NewReader(out)}
}

// step makes a step and returns its event.
func (p *supervised) step(number, milliseconds int, results ...Result) (e Event) {
	p.Helper()
	text, _ := json.Marshal(results)
	path := filepath.Join(p.folder, filepath.Base(ResultsPath(number)))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.Fatal(err)
	}
	fmt.Fprintf(p.in, "%d %d\n", number, milliseconds)
	line, err := p.out.ReadString('\n')
	if err != nil || line != fmt.Sprintln(number) {
		p.Fatalf("the supervisor says %q: %v", line, err)
	}
	text, err = os.ReadFile(filepath.Join(p.folder, filepath.Base(EventPath(number))))
	if err != nil {
		p.Fatal(err)
	}
	if err := json.Unmarshal(text, &e); err != nil {
		p.Fatal(err)
	}
	return e
}

// TestCallsAtOnce: calls that wait at the same time are one step, results go to their calls, and a
// call without a result fails.
func TestCallsAtOnce(t *testing.T) {
	p := start(t, Python, `
async def one(n):
    try:
        print(n, await get_weather(city=n))
    except Exception as e:
        print(n, "failed:", e)
await asyncio.gather(one(1), one(2), one(3))
`)
	e := p.step(1, 60_000)
	if len(e.Calls) != 3 || e.Ended || e.Calls[2].Name != "get-weather" ||
		string(e.Calls[2].Input) != `{"city": 3}` {
		t.Fatalf("%+v", e)
	}
	e = p.step(2, 60_000, Result{Call: e.Calls[2].ID, Result: json.RawMessage(`"sun"`)},
		Result{Call: e.Calls[1].ID, IsError: true, Message: "rain"}, Result{Call: "other"})
	lines := strings.Split(e.Stdout, "\n")
	want := map[string]bool{"3 sun": true, "2 failed: rain": true, "1 failed: the call has no result": true}
	for _, line := range lines[:len(lines)-1] {
		if !want[line] {
			t.Errorf("the program prints %q", line)
		}
	}
	if !e.Ended || e.Code != 0 || len(lines) != 4 {
		t.Errorf("%+v", e)
	}
}

// TestEndWhileCallsWait: a program that ends without waiting for its call ends with the next step,
// and a repeated step has no effect.
func TestEndWhileCallsWait(t *testing.T) {
	p := start(t, Bash, "get_weather '{}' & echo x; wait -n; exit 3")
	if e := p.step(1, 60_000); len(e.Calls) != 1 || e.Stdout != "x\n" {
		t.Fatalf("%+v", e)
	}
	fmt.Fprintf(p.in, "1 1\n") // it would end the program at once
	if e := p.step(2, 60_000, Result{Call: "call_1", IsError: true}); !e.Ended || e.Code != 3 ||
		e.Stderr != "get_weather: the tool has failed\n" {
		t.Errorf("%+v", e)
	}
}

// TestTimeOfStep: the time of a program that does not wait is over, also if the step is repeated, and
// its output is bounded.
func TestTimeOfStep(t *testing.T) {
	for ms := 500; ; ms *= 4 { // on a slow machine the program does not begin in time
		p := start(t, Python, "print('é' * 200, flush=True)\nwhile True: pass")
		fmt.Fprintf(p.in, "1 %d\n", ms)
		e := p.step(1, 60_000)
		if e.Expired && e.Code == -9 && e.Stdout == "" && ms < 30_000 {
			continue
		}
		if !e.Expired || e.Code != -9 || e.Stdout != strings.Repeat("é", 50) || e.Dropped != 301 {
			t.Errorf("%+v", e)
		}
		return
	}
}

// TestForgedCall: a program cannot call a tool that it does not have, and continues.
func TestForgedCall(t *testing.T) {
	p := start(t, Python, `
import socket, os
def send(text):
    c = socket.socket(socket.AF_UNIX)
    c.connect(os.environ["SANDGATE_TOOLS"] + "/calls")
    c.sendall(text)
    return json.loads(c.makefile().readline())["is_error"]
print(send(b'["other", {}]\n'), send(b'x\n'), send(b'["' + b'a' * 2_000_000 + b'\n'))
`)
	if e := p.step(1, 60_000); e.Stdout != "True True True\n" || len(e.Calls) != 0 || !e.Ended {
		t.Errorf("%+v", e)
	}
}
