package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// viewer is a viewer of a terminal that stores the output that it was sent.
type viewer struct {
	t    *testing.T
	ctx  context.Context
	term *wire.Terminal

	mu      sync.Mutex // guards all below
	text    strings.Builder
	total   int
	gaps    int64
	restore []frame.Restore
	events  []string
	exit    *protocol.Exit
	err     error
	changed chan struct{} // closed and replaced with each record
	keep    int           // how many bytes of text are kept; 0 means all
}

// watch reads a terminal in the background.
func watch(t *testing.T, ctx context.Context, term *wire.Terminal) *viewer {
	t.Helper()
	s := &viewer{t: t, ctx: ctx, term: term, changed: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s.take() {
		}
	}()
	t.Cleanup(func() {
		term.Close()
		<-done
	})
	return s
}

func (s *viewer) take() bool {
	r, err := s.term.Next(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, io.EOF):
		s.exit = s.term.Exit()
		s.err = err
	case err != nil:
		s.err = err
	case r.Kind == frame.KindStdout:
		s.total += len(r.Payload)
		s.text.Write(r.Payload)
		if s.keep > 0 && s.text.Len() > 2*s.keep {
			rest := s.text.String()[s.text.Len()-s.keep:]
			s.text.Reset()
			s.text.WriteString(rest)
		}
	case r.Kind == frame.KindGap:
		s.gaps++
	case r.Kind == frame.KindRestore:
		if x, err := wire.Restored(r); err == nil {
			s.restore = append(s.restore, x)
		}
	case r.Kind == frame.KindEvent:
		s.events = append(s.events, string(r.Payload))
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return err == nil
}

// until waits for a condition that is checked with mu held.
func (s *viewer) until(what string, ok func() bool) {
	s.t.Helper()
	late := time.After(3 * time.Minute)
	for {
		s.mu.Lock()
		done, err, changed := ok(), s.err, s.changed
		text := s.text.String()
		s.mu.Unlock()
		if done {
			return
		}
		if err != nil {
			s.t.Fatalf("waiting for %s: %v; the text is %q", what, err,
				text[max(0, len(text)-2000):])
		}
		select {
		case <-changed:
		case <-late:
			s.t.Fatalf("%s did not happen; the text is %q", what, text[max(0, len(text)-2000):])
		}
	}
}

// shows waits for text after the first n bytes of the current text, and returns the
// offset of its end.
func (s *viewer) shows(text string, after int) int {
	s.t.Helper()
	at := -1
	s.until(fmt.Sprintf("%q", text), func() bool {
		all := s.text.String()
		if i := strings.Index(all[min(after, len(all)):], text); i >= 0 {
			at = after + i + len(text)
		}
		return at >= 0
	})
	return at
}

func (s *viewer) keys(keys string) {
	s.t.Helper()
	check(s.t, s.term.Type(s.ctx, []byte(keys)))
}

// do types a command line and waits for the text that it must show.
func (s *viewer) do(line, want string) {
	s.t.Helper()
	s.mu.Lock()
	n := s.text.Len()
	s.mu.Unlock()
	s.keys(line + "\r")
	s.shows(want, n)
}

func (s *viewer) seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Len()
}

func (s *viewer) ended() protocol.Exit {
	s.t.Helper()
	s.until("the end", func() bool { return s.exit != nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.exit
}

// terminal opens a shell, whose prompt is "$ ".
func (s *session) terminal(o protocol.ChannelOpen) *viewer {
	s.t.Helper()
	o.Session = s.id
	if o.Argv == nil {
		o.Argv = []string{"bash", "--norc"}
		o.Env = map[string]string{"PS1": "$ "}
	}
	term, err := s.conn.StartTerminal(s.ctx, o)
	check(s.t, err)
	return watch(s.t, s.ctx, term)
}

// attach returns another viewer of a terminal, over a separate connection.
func (s *session) attach(channel string, o wire.AttachOptions) *viewer {
	s.t.Helper()
	conn, err := s.client.Connect(s.ctx)
	check(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	term, err := conn.Terminal(s.ctx, s.id, channel, o)
	check(s.t, err)
	return watch(s.t, s.ctx, term)
}

// processes counts the session's processes with a word in their command lines.
func (s *session) processes(word string) int {
	s.t.Helper()
	p, err := s.conn.Start(s.ctx, protocol.ChannelOpen{
		Session: s.id,
		Argv:    []string{"sh", "-c", "pgrep -c -f '[" + word[:1] + "]" + word[1:] + "'"},
	})
	check(s.t, err)
	defer p.Close()
	out := ""
	for {
		r, err := p.Next(s.ctx)
		if err != nil {
			break
		}
		if r.Kind == frame.KindStdout {
			out += string(r.Payload)
		}
	}
	n, err := strconv.Atoi(strings.TrimSpace(out))
	check(s.t, err)
	return n
}

// TestFullScreenPrograms uses an editor, a pager, a process viewer and a multiplexer in a
// terminal, at different sizes.
func TestFullScreenPrograms(t *testing.T) {
	s := open(t, server)
	sc := s.terminal(protocol.ChannelOpen{Cols: 90, Rows: 30})
	sc.do("stty size; tty; echo $TERM", "30 90\r\n/dev/pts/")
	sc.do("bind 'set enable-bracketed-paste off'; printf 'h\\303\\244llo \\346\\270\\254\\n'",
		"h\u00e4llo \u6e2c\r\n")

	sc.do("vim.tiny note.txt", "\x1b[?1049h")
	sc.keys("ihello from vim\x1b:set nu\r")
	sc.shows("hello from vim", 0)
	n := sc.seen()
	check(t, sc.term.Resize(s.ctx, 70, 20))
	sc.until("the event of the size", func() bool {
		return strings.Contains(strings.Join(sc.events, ""),
			`{"event":"resize","cols":70,"rows":20}`)
	})
	sc.keys(":set lines?\r")
	sc.shows("lines=20", n)
	sc.keys(":wq\r")
	sc.shows("\x1b[?1049l", n)
	sc.do("cat note.txt", "hello from vim\r\n")

	n = sc.seen()
	sc.keys("seq 1000 | less\r")
	n = sc.shows("\x1b[?1049h", n)
	sc.shows("18\r\n", n)
	sc.keys("G")
	sc.shows("1000", n)
	sc.keys("q")
	n = sc.shows("\x1b[?1049l", n)

	for _, program := range []string{"top", "htop"} {
		sc.keys(program + "\r")
		n = sc.shows("PID", n)
		sc.keys("q")
		n = sc.shows("$ ", n)
		sc.do("echo left-"+program+"-$((1+1))", "left-"+program+"-2")
	}

	sc.keys("tmux new-session 'echo in''side; read x'\r")
	n = sc.shows("inside", n)
	sc.keys("\r")
	sc.shows("[exited]", n)

	sc.do("bash -c 'echo run''ning; exec sleep 1000'", "running\r\n")
	sc.keys("\x03")
	sc.do("echo status $?", "status 130")
	// gVisor drops a stop signal that arrives during execve, so the program must have begun to read.
	sc.do("bash -c 'echo aga''in; exec cat'", "again\r\n")
	sc.do("line", "line\r\nline\r\n")
	sc.keys("\x1a")
	sc.do("jobs; echo jobs-$((1+1))", "Stopped")
	sc.do("kill %1; fg; echo end-$((1+1))", "end-2")
	sc.keys("exit 42\r")
	if e := sc.ended(); e.Code != 42 || e.Reason != "exited" {
		t.Errorf("the shell ended with %+v", e)
	}
}

// TestTerminalsShareASession checks that terminals, kernels and processes of one session
// use the same files, over one connection.
func TestTerminalsShareASession(t *testing.T) {
	s := open(t, server)
	a, b := s.terminal(protocol.ChannelOpen{}), s.terminal(protocol.ChannelOpen{})
	a.do("echo from-a > shared.txt; echo wrote-$((1+1))", "wrote-2")
	b.do("cat shared.txt", "from-a\r\n")
	s.run("ok", "open('shared.txt', 'a').write('from-python\\n')")
	b.do("cat shared.txt", "from-python\r\n")
	b.do("sudo -n true; su -c true </dev/null; id -u", "1000\r\n")
}

// TestTerminalLeavesNoOrphans checks that a close ends jobs, daemons and programs that
// ignore signals, also when the shell has ended before them.
func TestTerminalLeavesNoOrphans(t *testing.T) {
	s := open(t, server)
	sc := s.terminal(protocol.ChannelOpen{})
	sc.do(
		"sleep 4711 & setsid -f sleep 4711; nohup sleep 4711 >/dev/null 2>&1 & bash -c 'trap \"\" HUP TERM INT; sleep 4711' & echo st''arted", "started")
	eventually(t, "four processes run", func() bool { return s.processes("sleep 4711") >= 4 })
	check(t, s.conn.CloseChannel(s.ctx, s.id, sc.term.Channel().ID))
	if n := s.processes("sleep 4711"); n != 0 {
		t.Errorf("%d processes survive the close", n)
	}
	sc = s.terminal(protocol.ChannelOpen{})
	sc.keys("setsid -f sleep 4712; exit\r")
	sc.ended()
	check(t, s.conn.CloseChannel(s.ctx, s.id, sc.term.Channel().ID))
	if n := s.processes("sleep 4712"); n != 0 {
		t.Errorf("%d processes survive the close of a shell that had ended", n)
	}
}

// TestLateViewerSeesTheScreen attaches a viewer to a running editor. The viewer gets its
// modes and its screen, and does not answer requests of the past.
func TestLateViewerSeesTheScreen(t *testing.T) {
	s := open(t, server)
	sc := s.terminal(protocol.ChannelOpen{Cols: 80, Rows: 24})
	sc.do(
		"seq 20000 > n.txt; stty -echo; printf '\\033]0;my title\\a\\033[c\\033[6n\\033]11;?\\a\\033[?2004$p'; stty echo; echo as''ked", "asked")
	sc.do("vim.tiny n.txt", "\x1b[?1049h")
	sc.keys("ione more line\x1b:set lines?\r")
	sc.shows("lines=24", 0)

	late := s.attach(sc.term.Channel().ID, wire.AttachOptions{Offset: -200, Cols: 80, Rows: 24})
	late.until("a restore", func() bool { return len(late.restore) > 0 })
	late.mu.Lock()
	got := late.restore[0]
	late.mu.Unlock()
	contains(t, string(got.Data), "\x1b[?1049h", "\x1b]2;", "\x1b[?2004")
	late.shows("one more line1", 0) // the program has drawn its screen again
	watcher := s.attach(sc.term.Channel().ID, wire.AttachOptions{Offset: -200, ReadOnly: true})
	watcher.shows("one more line1", 0) // it also does so for a read-only viewer
	ch, err := s.conn.Channels(s.ctx, s.id)
	check(t, err)
	if last := ch[len(ch)-1]; last.Title == "" || last.Cols != 80 {
		t.Errorf("the channel is %+v", last)
	}

	// This terminal answers all requests at once, before it has reported that it has
	// processed the old output. No answer reaches the shell.
	sc.keys(":q!\r")
	// The editor asks for Return if it draws its screen for the watcher at this moment.
	looks := 0
	eventually(t, "the editor ends", func() bool {
		if looks++; looks%100 == 0 {
			sc.keys("\r")
		}
		sc.mu.Lock()
		defer sc.mu.Unlock()
		return strings.Contains(sc.text.String(), "\x1b[?1049l")
	})
	sc.do("echo re''ady; cat -v", "ready\r\n")
	answers := "\x1b[?62;22c\x1b[3;7R\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[?2004;1$y\x1b[I"
	again, err := s.conn.Terminal(s.ctx, s.id, sc.term.Channel().ID,
		wire.AttachOptions{Cols: 80, Rows: 24})
	check(t, err)
	defer again.Close()
	n := sc.seen()
	check(t, again.Type(s.ctx, []byte(answers)))
	check(t, again.Type(s.ctx, []byte("typed\r")))
	sc.shows("typed\r\ntyped\r\n", n)
	sc.mu.Lock()
	tail := sc.text.String()[n:]
	sc.mu.Unlock()
	if strings.Contains(tail, "62;22c") || strings.Contains(tail, "rgb:") ||
		strings.Contains(tail, "^[") {
		t.Errorf("the shell received %q", tail)
	}
}

// TestLateViewerSeesTop: a late viewer sees the screen of a program that draws the whole screen, and
// does not use the alternate screen for it.
func TestLateViewerSeesTop(t *testing.T) {
	s := open(t, server)
	sc := s.terminal(protocol.ChannelOpen{Cols: 80, Rows: 24})
	sc.do("top -d 600", "COMMAND")
	watcher := s.attach(sc.term.Channel().ID, wire.AttachOptions{Offset: -1, ReadOnly: true})
	watcher.shows("COMMAND", 0)
	sc.keys("q")
}

// TestHostilePaste checks that no part of a paste is executed, however it is sent.
func TestHostilePaste(t *testing.T) {
	s := open(t, server)
	sc := s.terminal(protocol.ChannelOpen{})
	sc.do("echo re''ady", "ready")
	sc.until("bracketed paste", func() bool { return strings.HasSuffix(sc.text.String(), "$ ") })
	hostile := "echo a\x1b[201~\rtouch /tmp/pwned\r\x03touch /tmp/pwned\r\u009b201~\rtouch /tmp/pwned\r"
	for _, paste := range []func(){
		func() { check(t, sc.term.Paste(s.ctx, []byte(hostile))) },
		func() { sc.keys("\x1b[200~" + hostile + "\x1b[201~") },
	} {
		sc.mu.Lock()
		n := sc.text.Len()
		sc.mu.Unlock()
		paste()
		// The whole paste is in the line, before the line is discarded.
		sc.until("the paste", func() bool {
			return strings.Count(sc.text.String()[n:],
				"touch /tmp/pwned") >= 3
		})
		sc.keys("\x03")
		sc.shows("^C", n)
		sc.until("the prompt", func() bool { return strings.HasSuffix(sc.text.String(), "$ ") })
	}
	sc.do("ls /tmp/pwned; echo do''ne", "done")
	sc.mu.Lock()
	defer sc.mu.Unlock()
	contains(t, sc.text.String(), "cannot access '/tmp/pwned'")
}

// TestTerminalFlood checks that memory stays bounded, that an interrupt ends the flood, and
// that dropped output is reported.
func TestTerminalFlood(t *testing.T) {
	s := open(t, server)
	sc := s.terminal(protocol.ChannelOpen{})
	sc.mu.Lock()
	sc.keep = 1 << 16
	sc.mu.Unlock()
	node, err := server.Child("node")
	check(t, err)
	before := resident(t, node)
	// A viewer that stops reading, for which output is dropped.
	conn, err := s.client.Connect(s.ctx)
	check(t, err)
	defer conn.Close()
	stalled, err := conn.Terminal(s.ctx, s.id, sc.term.Channel().ID,
		wire.AttachOptions{ReadOnly: true})
	check(t, err)
	for name, stop := range map[string]func() error{
		"key":       func() error { return sc.term.Type(s.ctx, []byte{3}) },
		"signal":    func() error { return sc.term.Signal(s.ctx, "SIGINT") },
		"interrupt": func() error { return sc.term.Interrupt(s.ctx) },
	} {
		sc.mu.Lock()
		goal := sc.total + 5<<20
		sc.mu.Unlock()
		sc.keys("yes\r")
		sc.until("a flood", func() bool { return sc.total > goal })
		check(t, stop())
		sc.keys("echo st''opped-" + name + "\r")
		sc.until("the end of the flood, by "+name,
			func() bool { return strings.Contains(sc.text.String(), "stopped-"+name) })
	}
	sc.keys("head -c 80000000 /dev/zero | tr '\\0' x; echo; echo fl''ooded\r") // one line of 80 MB
	sc.until("one long line", func() bool { return strings.Contains(sc.text.String(), "flooded") })
	sc.keys("python3 -c 'import os\rfor _ in range(100000): os.write(1, b\"x\")\r'; echo sm''all\r")
	sc.until("writes of one byte",
		func() bool { return strings.Contains(sc.text.String(), "small") })
	if sc.gaps > 0 {
		t.Error("a viewer that reads has missed output")
	}
	if after := resident(t, node); after > before+64<<20 {
		t.Errorf("the node grew from %d to %d MiB", before>>20, after>>20)
	}
	var gap bool
	for !gap {
		r, err := stalled.Next(s.ctx)
		check(t, err)
		gap = r.Kind == frame.KindGap
	}
}

// resident returns a process's resident memory in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	check(t, err)
	n, err := strconv.Atoi(strings.Fields(string(b))[1])
	check(t, err)
	return n * os.Getpagesize()
}

// TestManyViewers attaches 64 viewers to one terminal. One of them does not read and one is
// slow. All others see the whole output.
func TestManyViewers(t *testing.T) {
	s := open(t, server)
	sc := s.terminal(protocol.ChannelOpen{})
	sc.do("stty -echo; echo re''ady", "ready")
	id := sc.term.Channel().ID
	_, from := sc.term.Offset()
	var all []*viewer
	for range 62 {
		all = append(all, s.attach(id, wire.AttachOptions{ReadOnly: true, Offset: from}))
	}
	conn, err := s.client.Connect(s.ctx)
	check(t, err)
	defer conn.Close()
	stalled, err := conn.Terminal(s.ctx, s.id, id,
		wire.AttachOptions{ReadOnly: true, Offset: from, Window: 4096})
	check(t, err)
	slow, err := conn.Terminal(s.ctx, s.id, id, wire.AttachOptions{
		ReadOnly: true, Offset: from,
		Window: 4096,
	})
	check(t, err)
	sc.keys("seq 200000; echo al''l\r")
	for i, v := range append(all, sc) {
		v.until(fmt.Sprintf("the end for viewer %d", i),
			func() bool { return strings.Contains(v.text.String(), "200000\r\nall\r\n") })
		if v.gaps > 0 {
			t.Errorf("viewer %d missed output", i)
		}
	}
	all[0].mu.Lock()
	want := all[0].text.String()
	all[0].mu.Unlock()
	for i, v := range all {
		v.mu.Lock()
		if got := v.text.String(); !strings.HasPrefix(got, want[:strings.Index(want, "all\r\n")]) {
			t.Errorf("viewer %d has other output of %d bytes", i, len(got))
		}
		v.mu.Unlock()
	}
	// The slow viewer gets the whole output too, and the stalled one has not moved.
	var text strings.Builder
	for !strings.Contains(text.String(), "200000\r\nall") {
		r, err := slow.Next(s.ctx)
		check(t, err)
		if r.Kind == frame.KindStdout {
			text.Write(r.Payload)
		}
	}
	if _, at := stalled.Offset(); at != from {
		t.Errorf("the stalled viewer has moved from %d to %d", from, at)
	}
	// A late viewer is current at once.
	late := s.attach(id, wire.AttachOptions{ReadOnly: true, Offset: -64 << 10})
	late.until("the end", func() bool {
		return strings.Contains(late.text.String(),
			"200000\r\nall")
	})
	late.mu.Lock()
	defer late.mu.Unlock()
	if late.total > 64<<10 {
		t.Errorf("the late viewer was sent %d bytes", late.total)
	}
}

// TestChannelsDoNotBlockEachOther uses one connection with a viewer that stalls, a flood,
// a large paste that no program reads, and an invalid request. A fourth terminal is not
// affected.
func TestChannelsDoNotBlockEachOther(t *testing.T) {
	s := open(t, server)
	flood, err := s.conn.StartTerminal(s.ctx,
		protocol.ChannelOpen{Session: s.id, Argv: []string{"yes"}})
	check(t, err)
	deaf := s.terminal(protocol.ChannelOpen{Argv: []string{
		"sh", "-c",
		"stty -echo raw; echo deaf; exec sleep 1000",
	}})
	deaf.shows("deaf", 0)
	pasted := make(chan error, 1)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() { pasted <- deaf.term.Paste(ctx, []byte(strings.Repeat("much text\n", 5<<20))) }()
	other := open(t, server)
	watcher := watch(t, s.ctx, func() *wire.Terminal {
		term, err := s.conn.StartTerminal(s.ctx,
			protocol.ChannelOpen{Session: other.id, Argv: []string{"bash", "--norc"}})
		check(t, err)
		return term
	}())
	// An invalid request on one channel is reported there.
	if err := flood.Process.CloseStdin(s.ctx); !fault.Is(err, fault.Unsupported) {
		t.Errorf("the end of a terminal's input: %v", err)
	}
	for i := range 20 {
		watcher.do(fmt.Sprintf("echo echo-$((%d+1000))", i), fmt.Sprintf("echo-%d\r\n", i+1000))
	}
	s.run("ok", "1+1")
	if s.conn.Reconnects() != 0 {
		t.Error("the connection was lost")
	}
	check(t, deaf.term.Signal(s.ctx, "SIGKILL")) // the signal does not wait for the paste
	if e := deaf.ended(); e.Signal != "SIGKILL" {
		t.Errorf("the program that does not read ended with %+v", e)
	}
	if err := <-pasted; err == nil {
		t.Error("50 MB were pasted into a program that does not read")
	}
	check(t, flood.Signal(s.ctx, "SIGINT"))
	for err == nil {
		_, err = flood.Next(s.ctx)
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the flood ended with %v", err)
	}
}

// TestTypedOnceThroughKills kills the gateway repeatedly while a client types and a program
// prints. Input and output arrive once and completely.
func TestTypedOnceThroughKills(t *testing.T) {
	s := open(t, server)
	sc := s.terminal(protocol.ChannelOpen{Argv: []string{
		"sh", "-c",
		"stty raw -echo; echo ready; head -c 600000 > typed.bin; sha256sum typed.bin; read x",
	}})
	sc.shows("ready", 0)
	proc, err := s.conn.Start(s.ctx, protocol.ChannelOpen{
		Session: s.id,
		Argv:    []string{"sh", "-c", "cat > piped.bin; sha256sum piped.bin"}, Stdin: true,
	})
	check(t, err)
	data := make([]byte, 600_000)
	for i := range data {
		data[i] = byte('a' + i*i%26)
	}
	sum := sha256.Sum256(data)
	want := hex.EncodeToString(sum[:])
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond) // no event reports a reconnection
		defer tick.Stop()
		for n := 0; n < 4; {
			select {
			case <-stop:
				return
			case <-s.ctx.Done():
				return
			case <-tick.C:
			}
			if s.conn.Reconnects() < n {
				continue
			}
			pid, err := server.Child("gateway")
			if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				n++
			}
		}
	})
	var typing sync.WaitGroup
	for _, write := range []func([]byte) error{
		func(b []byte) error { return sc.term.Type(s.ctx, b) },
		func(b []byte) error { return proc.Stdin(s.ctx, b) },
	} {
		typing.Go(func() {
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 1009)
				if err := write(rest[:n]); err != nil {
					t.Errorf("input: %v", err)
					return
				}
				rest = rest[n:]
			}
		})
	}
	typing.Wait()
	check(t, proc.CloseStdin(s.ctx))
	sc.shows(want, 0)
	out := ""
	for err = nil; err == nil; {
		var r frame.Record
		if r, err = proc.Next(s.ctx); err == nil && r.Kind == frame.KindStdout {
			out += string(r.Payload)
		}
	}
	contains(t, out, want)
	close(stop)
	killer.Wait()
	check(t, server.Warm(s.ctx))
	if s.conn.Reconnects() == 0 {
		t.Error("the gateway was never killed")
	}
	t.Logf("%d reconnects", s.conn.Reconnects())
}

// TestShellCommand uses sandgate shell as a person does, in a terminal.
func TestShellCommand(t *testing.T) {
	ctx := deadline(t)
	cmd := sandgate(t, ctx, "shell")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 99})
	check(t, err)
	defer f.Close()
	var got strings.Builder
	await := func(text string) {
		t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(got.String(), text) {
			n, err := f.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				t.Fatalf("%q did not arrive: %v; the text is %q", text, err, got.String())
			}
		}
		_, rest, _ := strings.Cut(got.String(), text)
		got.Reset()
		got.WriteString(rest)
	}
	await("user@")
	f.WriteString("stty size\r")
	await("33 99")
	check(t, pty.Setsize(f, &pty.Winsize{Rows: 20, Cols: 70}))
	await("\x1b") // readline draws its line again, or the prompt arrives
	f.WriteString("\rstty size; echo $((3+4))-size\r")
	await("7-size")
	f.WriteString("yes\r")
	await("y\r\ny\r\ny\r\n")
	f.WriteString("\x03")
	f.WriteString("\recho $((20+3))-after\r")
	await("23-after")
	f.WriteString("vim.tiny\r")
	await("\x1b[?1049h")
	f.WriteString(":q\r")
	await("\x1b[?1049l")
	f.WriteString("exit 9\r")
	rest, _ := io.ReadAll(f) // EIO at the end
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 9 {
		t.Errorf("it ended with %v after %q", err, rest)
	}
}
