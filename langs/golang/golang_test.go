// Package golang_test builds the Go kernel as the image does, with the patched and with the stock
// linker, and runs cells in both, natively. The tests in cells/, which e2e runs, describe the
// behaviour in a sandbox.
package golang_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// TestModule vets and tests the kernel's own module, which `./...` of this one does not include. The
// tests of its front end need the changed type checker.
func TestModule(t *testing.T) {
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-overlay", checker(t), "./..."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = "kernel"
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", args[0], err, out)
		}
	}
}

// checker returns an overlay with the changes of Go's type checker, and no others.
func checker(t *testing.T) string {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "run", "./toolchain/patch", "-goroot",
		strings.TrimSpace(string(goroot)), "-src", "toolchain/_src", "-out", dir)
	cmd.Dir = "kernel"
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("patch: %v\n%s", err, out)
	}
	var overlay struct{ Replace map[string]string }
	file := filepath.Join(dir, "overlay.json")
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &overlay)
	}
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(overlay.Replace, func(path, _ string) bool {
		return !strings.Contains(path, "/src/go/types/")
	})
	if len(overlay.Replace) == 0 {
		t.Fatal("the type checker is not changed")
	}
	if text, err = json.Marshal(overlay); err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// build returns an installation of the kernel. It is kept in the user's cache, because it includes
// a build of the standard library.
func build(t *testing.T, linker string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatal("the kernel is built with gcc, which is not there")
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(cache, "sandgate", "golang-test")
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(work, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	cmd := exec.Command("kernel/toolchain/build", strings.TrimSpace(string(goroot)), out, linker)
	cmd.Env = append(os.Environ(), "WORK="+filepath.Join(work, "work"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	return out
}

// driver is a running kernel, as the agent sees it.
type driver struct {
	t      *testing.T
	cmd    *exec.Cmd
	to     *os.File
	frames chan frame.Frame
	plain  [2]chan string // the output on descriptors 1 and 2, when they end
	id     uint64
}

// start starts the kernel of an installation with the descriptors that the agent uses.
func start(t *testing.T, dir string) *driver {
	t.Helper()
	d := &driver{
		t: t, cmd: exec.Command(filepath.Join(dir, "bin/kernel")),
		frames: make(chan frame.Frame, 1<<16),
	}
	requests, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, replies, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d.to = to
	d.cmd.ExtraFiles = []*os.File{requests, replies}
	d.cmd.Dir = t.TempDir()
	d.cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var opened []*os.File
	for i, w := range []*io.Writer{&d.cmd.Stdout, &d.cmd.Stderr} {
		r, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		*w = out
		opened = append(opened, out)
		d.plain[i] = make(chan string, 1)
		go func() {
			b, _ := io.ReadAll(r)
			r.Close()
			d.plain[i] <- string(b)
		}()
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range append(opened, requests, replies) {
		f.Close()
	}
	go func() {
		defer close(d.frames)
		defer from.Close()
		for r := frame.NewReader(from, frame.MaxBody); ; {
			f, err := r.Next()
			if err != nil {
				return
			}
			f.Body = bytes.Clone(f.Body)
			d.frames <- f
		}
	}()
	t.Cleanup(func() {
		to.Close()
		syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		d.cmd.Wait()
	})
	if r := d.reply(0); r.Op != "ready" {
		t.Fatalf("the kernel began with %+v", r)
	}
	return d
}

// next returns the next frame within a minute, which is a limit for hangs.
func (d *driver) next() (frame.Frame, bool) {
	select {
	case f, ok := <-d.frames:
		return f, ok
	case <-time.After(time.Minute):
		d.t.Fatal("the kernel hangs")
		return frame.Frame{}, false
	}
}

// reply drops output until the reply to id comes.
func (d *driver) reply(id uint64) message.Reply {
	d.t.Helper()
	for {
		f, ok := d.next()
		if !ok {
			d.t.Fatal("the kernel ended")
		}
		var r message.Reply
		if f.Type == frame.Control && json.Unmarshal(f.Body, &r) == nil && r.ID == id {
			return r
		}
	}
}

func (d *driver) send(q kernel.Request) {
	d.t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.to.Write(frame.Append(nil,
		frame.Frame{Type: frame.Control, Body: body})); err != nil {
		d.t.Fatal(err)
	}
}

// outcome is the result of a cell.
type outcome struct {
	stdout, stderr, result, trace string
	reply                         message.Reply
}

// run runs a cell. act is called with each frame of its output.
func (d *driver) run(code string, act func(frame.Frame)) outcome {
	d.t.Helper()
	d.id++
	d.send(kernel.Request{Op: "execute", ID: d.id, Cell: uint32(d.id), Code: code})
	var o outcome
	for {
		f, ok := d.next()
		if !ok {
			d.t.Fatalf("the kernel ended in %q", code)
		}
		if act != nil {
			act(f)
		}
		switch f.Type {
		case frame.Stdout:
			o.stdout += string(f.Body)
		case frame.Stderr:
			o.stderr += string(f.Body)
		case frame.Message:
			var m struct {
				Type    string `json:"msg_type"`
				Content struct {
					Data      map[string]any `json:"data"`
					Traceback []string       `json:"traceback"`
				} `json:"content"`
			}
			if err := json.Unmarshal(f.Body, &m); err != nil {
				d.t.Errorf("%q wrote a message that is none: %v", code, err)
			}
			switch m.Type {
			case message.ExecuteResultType:
				o.result, _ = m.Content.Data["text/plain"].(string)
			case message.ErrorType:
				o.trace = strings.Join(m.Content.Traceback, "\n")
			}
		case frame.Control:
			if err := json.Unmarshal(f.Body, &o.reply); err != nil || o.reply.ID != d.id {
				d.t.Fatalf("%q was answered by %s", code, f.Body)
			}
			return o
		}
	}
}

// TestBothLinkers runs the same cells in a kernel of each kind.
func TestBothLinkers(t *testing.T) {
	cells := []struct {
		code, stdout, stderr, result, ename, evalue, trace string
		interrupt                                          bool
	}{
		{code: "x := 1"},
		{code: "x + 1", result: "2"},
		{code: "func double() int { return x * 2 }\nx := 21\ndouble()", result: "42"},
		{
			code: "type point struct{ x, y int }\nvar origin point\npoints := []point{{1, 2}, origin}",
		},
		{code: "func (p point) sum() int { return p.x + p.y }"},
		{code: "points[0].sum()", result: "3"},
		{
			code: "type pair[K comparable, V any] struct { k K; v V }\n" +
				"p := pair[string, []int]{\"a\", []int{1}}\np", result: "{a [1]}",
		},
		{code: "func at(xs []int, i int) int {\n\treturn xs[i]\n}"},
		{
			code: "\nat(p.v, 3)", ename: "panic", evalue: "index out of range",
			trace: `(?s)at\(…\).*cell8\.go:2.*cell9\.go:2`,
		},
		{
			code: "fmt.Println(\"out\"); fmt.Fprint(os.Stderr, \"err\")", stdout: "out\n",
			stderr: "err",
		},
		{code: "x = nosuch", ename: "CompileError", evalue: "cell11.go:1:5: undefined: nosuch"},
		{
			code: "fmt.Println(\"on\")\nfor { x++ }", stdout: "on\n", ename: "Interrupted",
			interrupt: true,
		},
		{code: "x > 21", result: "true"},
		{code: "go func() { panic(\"loose\") }()\nselect {}", ename: "panic", evalue: "loose"},
		{code: "func down(n int) int { return down(n+1) + 1 }\ndown(0)", ename: "StackOverflow"},
		{code: "make([]byte, 1<<45)", ename: "panic", evalue: "out of memory"},
		{code: "os.Exit(3)", ename: "Exit"},
		{
			code:   "m := map[string]error{\"eof\": io.EOF}\nerrors.Is(m[\"eof\"], io.EOF)",
			result: "true",
		},
		{
			code:   "json.NewEncoder(os.Stdout).Encode(struct{ A []point }{points[:0]})",
			stdout: "{\"A\":[]}\n", result: "<nil>",
		},
		{code: "x := fmt.Sprint(x > 21, len(points))\nx", result: "true 2"},
		{code: "runtime.GC()\npoints[0].sum()", result: "3"},
	}
	for _, linker := range []string{"patched", "stock"} {
		t.Run(linker, func(t *testing.T) {
			d := start(t, build(t, linker))
			for _, c := range cells {
				sent := false
				o := d.run(c.code, func(f frame.Frame) {
					if c.interrupt && f.Type == frame.Stdout && !sent {
						sent = true
						d.send(kernel.Request{Op: "interrupt"})
					}
				})
				if o.stdout != c.stdout || o.stderr != c.stderr || o.result != c.result ||
					o.reply.EName != c.ename ||
					!strings.Contains(o.reply.EValue, c.evalue) ||
					!regexp.MustCompile(c.trace).MatchString(o.trace) {
					t.Errorf("%s\n\tgave %+v", c.code, o)
				}
			}
		})
	}
}

// TestKernel tests behaviour that cells cannot test.
func TestKernel(t *testing.T) {
	dir := build(t, "patched")
	t.Run("frames", func(t *testing.T) { testFrames(t, dir) })
	t.Run("reseed", func(t *testing.T) { testReseed(t, dir) })
	t.Run("many cells", func(t *testing.T) { testManyCells(t, dir) })
	t.Run("questions", func(t *testing.T) { testQuestions(t, dir) })
}

// testFrames sends the kernel data that no agent would send: it must answer with an error or end,
// and never hang.
func testFrames(t *testing.T, dir string) {
	t.Run("requests", func(t *testing.T) {
		d := start(t, dir)
		for i, body := range []string{
			`{"op":"nosuch","id":1}`,
			`{"op":"execute","id":2,"code":7}`,
			`{"op":7,"id":3}`,
			`{"op":"complete","id":4,"code":"x","cursor":-5}`,
			`{"op":"complete","id":5,"code":"x.","cursor":1000000}`,
			`{"op":"inspect","id":6}`,
			`{"op":"reseed","id":7,"seed":"zz"}`,
			`{"op":"is_complete","id":8,"code":"\u0000\ufffd}{"}`,
			`{"op":"execute","id":9,"code":"\u0000"}`,
			`{"op":"execute","id":10,"code":"package"}`,
			`{"op":"variables","id":11}`,
		} {
			frame := frame.Append(nil, frame.Frame{Type: frame.Control, Body: []byte(body)})
			if _, err := d.to.Write(frame); err != nil {
				t.Fatal(err)
			}
			r := d.reply(uint64(i + 1))
			if bad := i < 3 || i == 6 || i == 8 || i == 9; bad != (r.Status == "error") {
				t.Errorf("%s was answered by %+v", body, r)
			}
		}
		for _, body := range []string{
			`{`, `[]`, `null`, ``,
			`{"op":"input","value":"nobody asked"}`, `{"op":"interrupt"}`,
		} {
			if _, err := d.to.Write(frame.Append(nil,
				frame.Frame{Type: frame.Control, Body: []byte(body)})); err != nil {
				t.Fatal(err)
			}
		}
		d.id = 100
		if o := d.run("1", nil); o.result != "1" {
			t.Errorf("afterwards a cell gave %+v", o)
		}
	})
	for name, data := range map[string][]byte{
		"too large": {0x7f, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"cut off":   {0, 0, 0, 9, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, dir)
			if _, err := d.to.Write(data); err != nil {
				t.Fatal(err)
			}
			d.to.Close()
			if f, ok := d.next(); ok {
				t.Errorf("it answered %s", f.Body)
			}
			if text := <-d.plain[1]; !strings.Contains(text, "kernel: ") {
				t.Errorf("it ended and said %q", text)
			}
		})
	}
}

// testReseed checks that a reseed sets variables, and that random numbers and maps work after it.
// Checking that clones then differ would need clones.
func testReseed(t *testing.T, dir string) {
	d := start(t, dir)
	d.run("a := rand.Int63()", nil)
	d.id++
	d.send(kernel.Request{
		Op: "reseed", ID: d.id, Seed: strings.Repeat("ab", 32),
		Env: map[string]string{"FROM": "reseed"},
	})
	if r := d.reply(d.id); r.Status != "ok" {
		t.Fatalf("reseed: %+v", r)
	}
	const code = "m := map[int]int{}\nfor i := range 1000 { m[rand.Intn(1<<40)] = i }\nfmt.Sprint(os.Getenv(\"FROM\"), len(m), a != rand.Int63())"
	if o := d.run(code, nil); o.result != "reseed1000 true" {
		t.Errorf("afterwards a cell gave %+v", o)
	}
}

// testManyCells checks that hundreds of cells leave no goroutine, descriptor or file behind, except
// for a cell's archive and object.
func testManyCells(t *testing.T, dir string) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	d := start(t, dir)
	count := func() (n [2]int) {
		o := d.run("runtime.NumGoroutine()", nil)
		fmt.Sscan(o.result, &n[0])
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		n[1] = len(list)
		return n
	}
	d.run("sum := 0", nil)
	before := count()
	for i := range 200 {
		if o := d.run(fmt.Sprintf("sum += %d\nfunc f%d() int { return sum }\nf%d()", i, i, i),
			nil); o.reply.Status != "ok" {
			t.Fatalf("cell %d: %+v", i, o)
		}
		if o := d.run("nosuch", nil); o.reply.EName != "CompileError" {
			t.Fatalf("cell %d: %+v", i, o)
		}
	}
	after := count()
	more := func() bool { return after[0] > before[0]+2 || after[1] > before[1]+2 }
	// Processes outside of the cells may end later on a busy machine.
	for range 50 {
		if !more() {
			break
		}
		after = count()
	}
	if more() {
		t.Errorf("goroutines and descriptors: %v before, %v after", before, after)
	}
}
