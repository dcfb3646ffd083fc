package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

func TestMain(m *testing.M) {
	if os.Getenv("BASH_DRIVER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// rig is a driver that runs without a sandbox, and its output.
type rig struct {
	t       *testing.T
	cmd     *exec.Cmd
	to      *os.File
	frames  chan frame.Frame
	mu      sync.Mutex // guards printed
	printed bytes.Buffer
	ended   chan error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Fatal("this machine has no /bin/bash")
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, cmd: exec.Command(os.Args[0]), to: to, frames: make(chan frame.Frame, 64),
		ended: make(chan error, 1),
	}
	r.cmd.Env = append(os.Environ(), "BASH_DRIVER=1", "TMPDIR="+t.TempDir())
	r.cmd.ExtraFiles = []*os.File{theirs, ours}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	ours.Close()
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			r.mu.Lock()
			r.printed.WriteString(line)
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(r.frames)
		in := frame.NewReader(from, 0)
		for {
			f, err := in.Next()
			if err != nil {
				return
			}
			f.Body = bytes.Clone(f.Body)
			r.frames <- f
		}
	}()
	t.Cleanup(func() {
		to.Close()
		for range r.frames {
			continue
		}
		from.Close()
		_ = r.cmd.Wait()
	})
	if reply, ok := r.reply(0); !ok || reply.Op != "ready" || reply.Info == nil {
		t.Fatalf("it begins with %+v", reply)
	}
	return r
}

func (r *rig) write(body string) {
	r.t.Helper()
	if err := frame.NewWriter(r.to).Write(frame.Frame{
		Type: frame.Control,
		Body: []byte(body),
	}); err != nil {
		r.t.Fatal(err)
	}
}

// reply waits for the reply with the id. It returns false at the driver's end.
func (r *rig) reply(id uint64) (message.Reply, bool) {
	r.t.Helper()
	limit := time.After(3 * time.Minute)
	for {
		select {
		case f, ok := <-r.frames:
			if !ok {
				return message.Reply{}, false
			}
			if f.Type == frame.Message {
				r.t.Logf("a message of cell %d: %.300s", f.Cell, f.Body)
			}
			var reply message.Reply
			if f.Type == frame.Control && json.Unmarshal(f.Body, &reply) == nil && reply.ID == id {
				return reply, true
			}
		case <-limit:
			r.t.Fatalf("there is no reply to %d", id)
		}
	}
}

func (r *rig) ask(q kernel.Request) message.Reply {
	r.t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(string(body))
	reply, ok := r.reply(q.ID)
	if !ok {
		r.t.Fatalf("the driver ended at %+v", q)
	}
	return reply
}

// forget removes the output so far.
func (r *rig) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.printed.Reset()
}

// awaitPrinted waits until the output since then contains text.
func (r *rig) awaitPrinted(text string) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(3 * time.Minute)
	for {
		r.mu.Lock()
		found := strings.Contains(r.printed.String(), text)
		r.mu.Unlock()
		if found {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("it did not print %q", text)
		}
	}
}

// awaitProgram waits until a descendant of the driver runs a program.
func (r *rig) awaitProgram(name string) {
	r.t.Helper()
	testenv.Eventually(r.t, name+" runs", func() bool {
		for pid := range processes().below(r.cmd.Process.Pid) {
			comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if err == nil && string(comm) == name+"\n" {
				return true
			}
		}
		return false
	})
}

// TestMalformedRequests checks that each gets an answer, and that the driver continues.
func TestMalformedRequests(t *testing.T) {
	r := newRig(t)
	for i, body := range []string{
		`{"op":"dance","id":1}`, `{"id":2}`, `{"op":"execute","id":3,"code":7}`,
		`{"op":"execute","id":4,"code":{}}`,
		`{"op":"complete","id":5,"code":"ec","cursor":"x"}`, `{"op":"inspect","id":6,"cell":-1}`,
	} {
		r.write(body)
		if reply, ok := r.reply(uint64(i + 1)); !ok || reply.Status != "error" {
			t.Errorf("%s: %+v", body, reply)
		}
	}
	for _, body := range []string{`{`, ``, `[]`, `null`, "\x00\xff", `"execute"`} {
		r.write(body) // without an id, nobody can get a reply
	}
	r.write(`{"op":"input","cell":99,"value":"nobody asked"}`)
	for i, cursor := range []int{-5, 0, 3, 1 << 30} {
		r.ask(kernel.Request{ID: uint64(20 + i), Op: "complete", Code: "ech", Cursor: cursor})
		r.ask(kernel.Request{ID: uint64(30 + i), Op: "inspect", Code: "ech", Cursor: cursor})
	}
	if reply := r.ask(kernel.Request{
		ID: 40, Op: "execute", Cell: 1,
		Code: "echo on\x00",
	}); reply.EName != "SyntaxError" {
		t.Errorf("a zero byte: %+v", reply)
	}
	if reply := r.ask(kernel.Request{
		ID: 41, Op: "execute", Cell: 2,
		Code: "true",
	}); reply.Status != "ok" {
		t.Errorf("afterwards: %+v", reply)
	}
}

// TestFramesThatAreNone checks that invalid frames end the driver, without a hang.
func TestInvalidFrames(t *testing.T) {
	for name, raw := range map[string]string{
		"too large":  "\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"wrong type": "\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"no header":  "GET / HTTP/1.1\r\n\r\n",
	} {
		r := newRig(t)
		if _, err := io.WriteString(r.to, raw); err != nil {
			t.Fatal(err)
		}
		if reply, ok := r.reply(1 << 60); ok {
			t.Errorf("%s: %+v", name, reply)
		}
		err := r.cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%s: it ended with %v", name, err)
		}
	}
}

// TestForgedEvents writes into the driver's own FIFOs, as a cell could.
func TestForgedEvents(t *testing.T) {
	r := newRig(t)
	for i, code := range []string{
		`printf 'done\x1e' > $__sg_dir/events`,
		`printf 'done\x1f1\x1fx\x1e\x1e\x1f\x1e' > $__sg_dir/events`,
		`printf 'saved\x1f../../etc/passwd\x1e' > $__sg_dir/events`,
		`printf 'reseeded\x1fnone\x1egone\x1f1\x1edisplay\x1f1\x1f\x1f/etc\x1e' > $__sg_dir/events`,
		`head -c 100000 /dev/zero | tr '\0' x > $__sg_dir/events; printf '\x1e' > $__sg_dir/events`,
	} {
		r.ask(kernel.Request{ID: uint64(i + 1), Op: "execute", Cell: uint32(i + 1), Code: code})
	}
	reply := r.ask(kernel.Request{ID: 10, Op: "execute", Cell: 10, Code: "(exit 7)"})
	if reply.Status != "error" || reply.ExitCode == nil || *reply.ExitCode != 7 {
		t.Errorf("afterwards: %+v", reply)
	}
}

// interrupt interrupts as the agent does, with a request and SIGINT to the driver's group.
func (r *rig) interrupt(cell uint32) {
	r.t.Helper()
	r.write(fmt.Sprintf(`{"op":"interrupt","cell":%d}`, cell))
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGINT)
}

// TestInterruptAtAnyMoment interrupts cells right after their beginning, some of them while a child
// is between fork and exec. Each must end after one interrupt, and the next one must run.
func TestInterruptAtAnyMoment(t *testing.T) {
	r := newRig(t)
	cells := []string{
		"while :; do :; done", "sleep 1000", "sleep 1000 | cat", "x=$(sleep 1000)",
		"while :; do /bin/true; done", "(sleep 1000)",
		"for ((;;)); do sleep 0.001; done", "sleep 1000 & wait", "f() { sleep 1000; f; }; f",
	}
	for i := range 45 {
		id := uint64(2*i + 1)
		body, _ := json.Marshal(kernel.Request{
			ID: id, Op: "execute", Cell: uint32(id),
			Code: cells[i%len(cells)],
		})
		r.write(string(body))
		for end := time.Now().Add(time.Duration(i*37%3000) * time.Microsecond); time.Now().Before(
			end); {
			continue // sleeping is not precise enough
		}
		r.interrupt(uint32(id))
		reply, ok := r.reply(id)
		// The signal may end sleep before Bash starts cat, which then ends by itself.
		byItself := cells[i%len(cells)] == "sleep 1000 | cat" && reply.Status == "ok"
		if !ok || reply.EName != "Interrupted" && !byItself {
			t.Fatalf("%q: %+v", cells[i%len(cells)], reply)
		}
		if reply := r.ask(kernel.Request{
			ID: id + 1, Op: "execute", Cell: uint32(id + 1),
			Code: "kept=1",
		}); reply.Status != "ok" {
			t.Fatalf("after %q: %+v", cells[i%len(cells)], reply)
		}
	}
	// An interrupt for an earlier cell must not stop this one.
	body, _ := json.Marshal(kernel.Request{ID: 901, Op: "execute", Cell: 901, Code: "sleep 0.3"})
	r.write(string(body))
	r.write(`{"op":"interrupt","cell":900}`)
	if reply, ok := r.reply(901); !ok || reply.Status != "ok" {
		t.Errorf("the next cell: %+v", reply)
	}
	if reply := r.ask(kernel.Request{ID: 1000, Op: "variables"}); !slices.ContainsFunc(
		reply.Variables, func(v message.Variable) bool { return v.Name == "kept" }) {
		t.Errorf("variables: %+v", reply.Variables)
	}
}

// TestInterruptEndsTheDeaf: one interrupt must end cells that handle it and continue, ignore it, or
// run programs that do, in the same shell. The state of these and of earlier cells stays, also the
// user's trap, and jobs can be waited for.
func TestInterruptKillsIgnoringPrograms(t *testing.T) {
	r := newRig(t)
	id := uint64(0)
	run := func(code string) message.Reply {
		id++
		return r.ask(kernel.Request{ID: id, Op: "execute", Cell: uint32(id), Code: code})
	}
	// The first job has its own standard input.
	if reply := run(
		"kept=41; f() { echo f; }; cd /usr; exec 9>/dev/null; shell=$$; sleep 1000 </dev/zero & job=$!; sleep 1000 & jab=$!"); reply.Status != "ok" {
		t.Fatalf("%+v", reply)
	}
	for _, code := range []string{
		"while :; do (sleep 1); done",
		"(while :; do :; done)",
		"(while :; do /bin/true; done)",
		"yes | while read x; do :; done",
		"while :; do :; done | cat",
		"while :; do /bin/true; done | while :; do /bin/true; done",
		"until false; do eval 'while :; do :; done'; done",
		"mapfile -t lines < <(while :; do echo; done)",
		"set -e; while :; do :; done",
		"sh -c 'trap \"\" INT; exec sleep 1000'",
		"sh -c 'trap \"\" INT TERM; sleep 1000; sleep 1000'; echo not here",
		"sh -c 'trap \"\" INT; exec sleep 1000' </dev/null",
		"sh -c 'trap \"echo no\" INT; while :; do sleep 0.1; done'",
		"sh -c 'trap \"\" INT; exec sleep 1000' | cat",
		"trap 'echo no' INT; while :; do sleep 1; done",
		"trap 'echo no' INT; while :; do :; done",
		"trap 'echo no' INT; while :; do wait; done",
		"trap 'while :; do :; done' INT; while :; do :; done",
		"trap 'sleep 1000' INT; while :; do sleep 1; done",
		"trap '' INT; while :; do :; done",
		"trap '' INT; sleep 1000",
		"trap '' INT; sleep 1000 & other=$!; wait",
		"trap '' INT; read line < <(sleep 1000)",
		"trap '' INT; set -o noclobber; while :; do :; done",
		"(trap '' INT; while :; do :; done)",
		"(trap '' INT; while :; do sleep 0.01; done) | cat",
		"x=$(trap '' INT; while :; do :; done)",
	} {
		r.forget()
		id++
		at := 0
		if strings.HasPrefix(code, "trap") {
			// it is set before the interrupt, however long the shell takes
			at = strings.Index(code, "INT; ") + len("INT; ")
		}
		body, _ := json.Marshal(kernel.Request{
			ID: id, Op: "execute", Cell: uint32(id),
			Code: "this=" + fmt.Sprint(id) + "; " + code[:at] + "/bin/echo on\n" + code[at:],
		})
		r.write(string(body))
		r.awaitPrinted("on\n")
		if strings.HasSuffix(code, "| cat") {
			r.awaitProgram("cat")
		}
		// for other code any moment will do; here its processes are no longer young
		time.Sleep(150 * time.Millisecond)
		sent := time.Now()
		r.interrupt(uint32(id))
		reply, ok := r.reply(id)
		if !ok || reply.EName != "Interrupted" {
			t.Fatalf("%q: %+v", code, reply)
		}
		t.Logf("%v: %s", time.Since(sent).Round(time.Millisecond), code)
		check := "set +eC; check() { " + checkShell + "; }; check " + fmt.Sprint(id)
		if strings.HasPrefix(code, "trap") {
			check += ` && { [[ -n $(trap -p INT) ]] || (exit 50); } && trap - INT`
		}
		if reply := run(check); reply.Status != "ok" || reply.ExitCode != nil {
			t.Errorf("after %q: %s", code, status(reply))
		}
	}
	reply := run("kill $job $jab; wait $job; status=$?; [[ $status == 143 ]] || (exit $status)")
	if reply.Status != "ok" || reply.ExitCode != nil {
		t.Errorf("the job cannot be waited for: %s", status(reply))
	}
}

// checkShell checks that the shell is as before the cell with the number $1. It returns the number
// of the check that fails.
const checkShell = `
	[[ $shell == $$ ]] || return 41
	[[ $kept == 41 && $this == $1 ]] || return 42
	[[ $(f) == f && $PWD == /usr ]] || return 43
	[[ $(jobs -p | wc -l) -ge 2 ]] || return 44
	echo x >&9 || return 45
	kill -0 $job && kill -0 $jab || return 46
	sleep 0 & wait $! || return 48
	[[ -z ${other-} ]] || kill $other || return 47
	unset other`

// status is the status of a reply, for a message.
func status(r message.Reply) string {
	if r.ExitCode == nil {
		return r.Status
	}
	return fmt.Sprintf("%s, exit status %d", r.Status, *r.ExitCode)
}

// TestStarted distinguishes a child of the cell from a job that the previous cell has left,
// whichever way the clock and its start time are rounded.
func TestStarted(t *testing.T) {
	sent := 1250 * time.Millisecond // anything from 1.245 to 1.26 s
	for _, test := range []struct {
		pid   int
		began time.Duration
		want  bool
	}{
		{31, 1240 * time.Millisecond, true}, // the clock was rounded up
		{31, 1250 * time.Millisecond, true},
		{31, 9 * time.Second, true},
		{30, 1240 * time.Millisecond, false}, // a job
		{30, 1260 * time.Millisecond, false},
		{30, 9 * time.Second, true}, // the process numbers began again
		{31, 1200 * time.Millisecond, false},
		{29, 100 * time.Millisecond, false},
	} {
		c := &cell{sent: sent, running: 30}
		if got := c.started(test.pid, process{began: test.began}); got != test.want {
			t.Errorf("%d at %v: %v", test.pid, test.began, got)
		}
	}
}

// TestReseed sets variables with any content, and checks that none of them is listed.
func TestReseed(t *testing.T) {
	r := newRig(t)
	env := map[string]string{"A": "it's $HOME `id` \"x\"\nnext", "B": ""}
	if reply := r.ask(kernel.Request{
		ID: 1, Op: "reseed", Env: env,
		Seed: strings.Repeat("5a", 32),
	}); reply.Status != "ok" {
		t.Fatalf("%+v", reply)
	}
	reply := r.ask(kernel.Request{
		ID: 2, Op: "execute", Cell: 1,
		Code: "mine=1; [[ $A == \"it's \\$HOME \\`id\\` \\\"x\\\"\"$'\\nnext' && -v B ]]",
	})
	if reply.Status != "ok" || reply.ExitCode != nil {
		t.Errorf("the variable is another: %+v", reply)
	}
	if reply := r.ask(kernel.Request{ID: 3, Op: "variables"}); len(reply.Variables) != 1 ||
		reply.Variables[0].Name != "mine" {
		t.Errorf("variables: %+v", reply.Variables)
	}
}

func TestTable(t *testing.T) {
	for text, want := range map[string]string{
		"a,b\n1,<x>\n":      "<tr><td>1</td><td>&lt;x&gt;</td></tr>",
		"a\tb\n1\t2,3\n":    "<td>2,3</td>",
		"a\n\"open":         "<td>open</td>",
		"":                  "<table></table>",
		"\xff\xfe,2\nx,y\n": "<td>y</td>",
	} {
		data, err := tableOf([]byte(text))
		if err != nil || !strings.Contains(data["text/html"].(string), want) {
			t.Errorf("%q: %v, %v", text, data, err)
		}
	}
}
