package e2e

import (
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// screen is a program in a terminal, and the text that the terminal shows.
type screen struct {
	t    *testing.T
	file io.ReadWriteCloser

	mu   sync.Mutex
	text strings.Builder
	seen int // how much of the text was expected before
	more chan struct{}
}

func startScreen(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	cmd.Env = append(cmd.Environ(), "TERM=xterm", "HOME="+t.TempDir())
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	check(t, err)
	s := &screen{t: t, file: f, more: make(chan struct{}, 1)}
	t.Cleanup(func() { f.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := f.Read(b)
			s.mu.Lock()
			s.text.Write(b[:n])
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *screen) keys(text string) {
	s.t.Helper()
	_, err := io.WriteString(s.file, text)
	check(s.t, err)
}

// expect waits until the terminal shows text after the text that was expected before.
func (s *screen) expect(text string) {
	s.t.Helper()
	limit := time.After(3 * time.Minute)
	for {
		s.mu.Lock()
		all := s.text.String()
		at := strings.Index(all[s.seen:], text)
		if at >= 0 {
			s.seen += at + len(text)
		}
		s.mu.Unlock()
		if at >= 0 {
			return
		}
		select {
		case <-s.more:
		case <-limit:
			s.t.Fatalf("the terminal did not show %q; the end of its text is %q", text,
				all[max(s.seen, len(all)-300):])
		}
	}
}

// TestReplInATerminal uses a kernel as a person does.
func TestReplInATerminal(t *testing.T) {
	cmd := sandgate(t, deadline(t), "repl", "python")
	s := startScreen(t, cmd)
	s.expect(">>> ")
	s.keys("x = 20\r")
	s.expect(">>> ")
	s.keys("x + 22\r")
	s.expect("42")
	s.expect(">>> ")

	// A block, ended by an empty line.
	s.keys("for i in range(2):\r")
	s.expect("... ")
	s.keys("    print('line', i)\r")
	s.expect("... ")
	s.keys("\r")
	s.expect("line 0")
	s.expect("line 1")
	s.expect(">>> ")

	// A request for input, the answer to it, and a name completed from live objects.
	s.keys("name = input('Who? ')\r")
	s.expect("Who? ")
	s.keys("Ada\r")
	s.expect(">>> ")
	s.keys("nam\t.upper()\r")
	s.expect("'ADA'")
	s.expect(">>> ")

	// Ctrl-C stops the cell and keeps the state.
	s.keys("print('begun'); import time\r")
	s.expect("begun")
	s.expect(">>> ")
	s.keys("while True: time.sleep(0.01 if print('round', 'it', 'goes') is None else 0)\r")
	s.expect("round it goes")
	s.keys("\x03")
	s.expect("KeyboardInterrupt")
	s.expect(">>> ")
	s.keys("x\r")
	s.expect("20")
	s.expect(">>> ")

	s.keys("\x04")
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-D: %v", err)
	}
}
