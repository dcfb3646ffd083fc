package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// screen simulates a person at a terminal: it types and waits for output.
type screen struct {
	t   *testing.T
	f   *os.File
	cmd *exec.Cmd

	mu   sync.Mutex // guards all below
	text string
	seen int
	news chan struct{}
}

func newScreen(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, f: f, cmd: cmd, news: make(chan struct{}, 1)}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			s.mu.Lock()
			s.text += string(buf[:n])
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		_ = f.Close()
	})
	return s
}

func (s *screen) keys(keys string) {
	s.t.Helper()
	if _, err := s.f.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// await waits for text after the text of the last call, and returns all output up to its end.
func (s *screen) await(text string) string {
	s.t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		s.mu.Lock()
		i := strings.Index(s.text[s.seen:], text)
		if i >= 0 {
			part := s.text[s.seen : s.seen+i+len(text)]
			s.seen += i + len(text)
			s.mu.Unlock()
			return part
		}
		rest := s.text[s.seen:]
		s.mu.Unlock()
		select {
		case <-s.news:
		case <-timeout:
			s.t.Fatalf("%q did not come; there is %q", text, rest)
		}
	}
}

func TestREPLOnATerminal(t *testing.T) {
	server := newServer(t, pythonish())
	c := newCLI(t, server)
	c.env = append(c.env, "TERM=xterm")
	s := newScreen(t, c.process("repl", "python"))
	s.await("Test kernel")
	s.await(">>> ")

	s.keys("x = 1\r")
	s.await("<x = 1>")
	s.await("\r\n>>> ") // the prompt is on a line of its own

	s.keys("def f():\r")
	s.await("... ")
	s.keys("  pass\r")
	s.await("... ")
	s.keys("\r")
	s.await("<def f():|  pass|>")
	s.await(">>> ")

	s.keys("loop\r")
	s.await("<loop>")
	s.keys("\x03")
	s.await("KeyboardInterrupt")
	s.await(">>> ")

	s.keys("half a li\x03") // clears the line
	s.await("^C")
	s.await(">>> ")
	s.keys("y\r")
	s.await("<y>")
	s.await(">>> ")

	s.keys("def g():\r")
	s.await("... ")
	s.keys("\x03") // clears the whole block
	s.await(">>> ")
	s.keys("z\r")
	s.await("<z>")
	s.await(">>> ")

	s.keys("ask\r")
	s.await("name? ")
	s.keys("Ada\r")
	s.await("hello Ada")
	s.await(">>> ")

	s.keys("secret\r")
	s.await("password: ")
	s.keys("hunter2\r")
	if shown := s.await("length 7"); strings.Contains(shown, "hunter2") {
		t.Errorf("the password was shown: %q", shown)
	}
	s.await(">>> ")

	s.keys("fail\r")
	s.await("\x1b[31mBoom\x1b[0m: no")
	s.await(">>> ")

	s.keys("imp\t")
	s.await("ort")
	s.keys(" os\r")
	s.await("<import os>")
	s.await(">>> ")

	s.keys("al\t\t")
	s.await("alpha  alphabet")
	s.keys("\x15")

	s.keys("\x1b[A\r") // the previous line
	s.await("<import os>")
	s.await(">>> ")

	s.keys("figure\r")
	s.await("image/png")
	s.await(">>> ")

	s.keys("\x04")
	state, err := s.cmd.Process.Wait()
	if err != nil || state.ExitCode() != 0 {
		t.Errorf("it ended with %v, %v", state, err)
	}
	if d := server.Deleted(); len(d) != 1 {
		t.Errorf("deleted sessions: %q", d)
	}
	past, err := os.ReadFile(filepath.Join(c.home, ".config/sandgate/history"))
	if err != nil || !strings.Contains(string(past), "import os\n") ||
		strings.Contains(string(past), "hunter2") {
		t.Errorf("the history is %q, %v", past, err)
	}
}

// TestREPLExits: exit() in the kernel leaves with its status.
func TestREPLExits(t *testing.T) {
	c := newCLI(t, newServer(t, pythonish()))
	s := newScreen(t, c.process("repl"))
	s.await(">>> ")
	s.keys("exit\r")
	state, err := s.cmd.Process.Wait()
	if err != nil || state.ExitCode() != 4 {
		t.Errorf("it ended with %v, %v", state, err)
	}
}
