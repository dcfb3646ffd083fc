package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/pty"
)

// shell starts a shell script in a terminal.
func (r *rig) shell(ch uint32, script string) {
	r.t.Helper()
	if _, err := r.StartTerminal(r.ctx, ch,
		wire.StartTerminal{
			Argv: []string{"bash", "--norc", "-c", script},
			Size: pty.Size{Cols: 80, Rows: 24},
		}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) typed(ch uint32, keys string) {
	r.t.Helper()
	if err := r.Input(ch, []byte(keys), false); err != nil {
		r.t.Fatal(err)
	}
}

// says waits until the output contains text after the first n bytes.
func (r *rig) says(ch uint32, text string) {
	r.t.Helper()
	for {
		r.sink.Mu.Lock()
		changed := r.sink.Changed
		_, ended := r.sink.Exits[ch]
		r.sink.Mu.Unlock()
		if got := r.sink.Text(ch, 0); strings.Contains(got, text) {
			return
		} else if ended {
			r.t.Fatalf("the terminal ended without %q, with %q", text, got)
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			r.t.Fatalf("%q never came, only %q", text, r.sink.Text(ch, 0))
		}
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shell(
		1, `tty; stty size; ls -ln "$(tty)" | cut -d' ' -f3; test -t 0 -a -t 1 -a -t 2 && echo all; echo $TERM $COLORTERM; read x; echo "got $x"; exit 7`)
	r.says(1, "truecolor")
	r.typed(1, "h\u00e4llo\r")
	if e := r.sink.WaitExit(t, 1); e.Code != 7 || e.Reason != wire.ReasonExited {
		t.Errorf("it ended with %+v", e)
	}
	got := r.sink.Text(1, 0)
	for _, want := range []string{
		"/dev/pts/", "24 80\r\n", fmt.Sprintf("\r\n%d\r\n", r.uid),
		"all\r\n", "xterm-256color truecolor", "got h\u00e4llo\r\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	agenttest.WantKind(t, r.Resize(r.ctx, 1, wire.Resize{Size: pty.Size{Cols: 1, Rows: 1}}),
		fault.NotFound)
	for i, x := range []struct {
		p     wire.StartTerminal
		field string
	}{
		{wire.StartTerminal{Argv: []string{"sh"}}, "cols"},
		{wire.StartTerminal{Argv: []string{"sh"}, Size: pty.Size{Cols: 80, Rows: 1 << 20}}, "rows"},
		{wire.StartTerminal{Size: pty.Size{Cols: 80, Rows: 24}}, "argv"},
	} {
		_, err := r.StartTerminal(r.ctx, uint32(100+i), x.p)
		if e := agenttest.WantKind(t, err, fault.InvalidArgument); e.Field != x.field {
			t.Errorf("%+v: the field at fault is %q", x.p, e.Field)
		}
	}
	// The agent keeps no descriptors of terminals that have ended or that failed to start.
	out, _ := r.program(200, "ls /proc/"+fmt.Sprint(r.cmd.Process.Pid)+
		"/fd 2>/dev/null | wc -l; ls -l /proc/$PPID/fd 2>/dev/null | grep -c ptmx")
	if strings.Contains(out, "ptmx") {
		t.Errorf("the agent holds %s", out)
	}
}

func TestTerminalResize(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// The trap is short, and its note is read after it, because a signal that arrives while bash
	// ends the previous trap may not get a trap of its own.
	r.shell(
		1, `trap told=1 WINCH; echo on; while :; do if test "$told"; then told=; echo "size $(stty size)."; fi; sleep 0.05; done`)
	r.says(1, "on")
	if err := r.Resize(r.ctx, 1, wire.Resize{Size: pty.Size{Cols: 100, Rows: 30}}); err != nil {
		t.Fatal(err)
	}
	r.says(1, "size 30 100.")
	if err := r.Resize(r.ctx, 1, wire.Resize{
		Size:   pty.Size{Cols: 100, Rows: 30},
		Redraw: true,
	}); err != nil {
		t.Fatal(err)
	}
	agenttest.Eventually(t, "it is told of the same size again", func() bool {
		return strings.Count(r.sink.Text(1, 0), "size ") > 1 &&
			strings.HasSuffix(strings.TrimSpace(r.sink.Text(1, 0)), "size 30 100.")
	})
	agenttest.WantKind(t, r.Resize(r.ctx, 1, wire.Resize{Size: pty.Size{Cols: 100}}),
		fault.InvalidArgument)
	r.program(2, "true")
	if _, err := r.StartProcess(r.ctx, 3,
		wire.StartProcess{Argv: []string{"sleep", "1000"}}); err != nil {
		t.Fatal(err)
	}
	agenttest.WantKind(t, r.Resize(r.ctx, 3, wire.Resize{Size: pty.Size{Cols: 100, Rows: 30}}),
		fault.Conflict)
}

// TestTerminalInterrupt: Ctrl-C and SIGINT work in a flood, and after type-ahead that no program
// reads.
// TestTerminalKeepsItsSize reverts a change of size right after it, as a shell does that has read the
// size before it.
func TestTerminalKeepsItsSize(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shell(1, `before=$(stty size); echo on; while test "$before" = "$(stty size)"; do :; done; `+
		`set $before; stty rows $1 cols $2; while test "$before" = "$(stty size)"; do sleep 0.05; done; `+
		`echo "size $(stty size)."; sleep 1000`)
	r.says(1, "on")
	if err := r.Resize(r.ctx, 1, wire.Resize{Size: pty.Size{Cols: 100, Rows: 30}}); err != nil {
		t.Fatal(err)
	}
	r.says(1, "size 30 100.")
}

func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		flood  bool
		ahead  string
		stop   func(r *rig) error
	}{
		"key in a flood": {
			"exec yes", true, "",
			func(r *rig) error { return r.Input(1, []byte{3}, false) },
		},
		"signal in a flood": {
			"exec yes", true, "",
			func(r *rig) error { return r.Signal(r.ctx, 1, "SIGINT") },
		},
		"interrupt": {
			"exec yes", true, "",
			func(r *rig) error { return r.Interrupt(r.ctx, 1) },
		},
		"key after a line": {
			"echo y; exec sleep 1000", false, "not read\r",
			func(r *rig) error { return r.Input(1, []byte{3}, false) },
		},
		"key after much": {"echo y; exec sleep 1000", false, strings.Repeat("not read\r",
			40_000), func(r *rig) error { return r.Input(1, []byte{3}, false) }},
		"signal after much": {"echo y; exec sleep 1000", false, strings.Repeat("not read\r",
			40_000), func(r *rig) error { return r.Signal(r.ctx, 1, "SIGINT") }},
		"quit": {
			"echo y; exec sleep 1000", false, "",
			func(r *rig) error { return r.Signal(r.ctx, 1, "SIGQUIT") },
		},
		"raw, a signal": {
			"stty raw -echo; echo y; sleep 1000", false, "",
			func(r *rig) error { return r.Signal(r.ctx, 1, "SIGINT") },
		},
		"terminate": {
			"trap '' TERM; echo y; env --default-signal=TERM sleep 1000", false,
			"", func(r *rig) error { return r.Signal(r.ctx, 1, "SIGTERM") },
		},
		// Without a trap: a bash that gets the next signal while it runs the trap's exit begins the
		// exit again.
		"hang up": {
			"echo y; sleep 1000 & exec sleep 1000", false, "",
			func(r *rig) error { return r.Signal(r.ctx, 1, "SIGHUP") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.sink.Mu.Lock()
			r.sink.Keep = !c.flood
			r.sink.Mu.Unlock()
			r.shell(1, c.script)
			r.sink.Until(t, "it runs",
				func() bool { return r.sink.Bytes[1] > 0 && (!c.flood || r.sink.Bytes[1] > 1<<20) })
			if c.ahead != "" {
				r.typed(1, c.ahead)
			}
			// A shell's child may not exist yet. The pauses grow, because a shell that gets another
			// signal while it ends begins to end again.
			var next time.Time
			pause := 5 * time.Millisecond
			agenttest.Eventually(t, "it is obeyed", func() bool {
				r.sink.Mu.Lock()
				_, ended := r.sink.Exits[1]
				r.sink.Mu.Unlock()
				if ended || time.Now().Before(next) {
					return ended
				}
				pause *= 2
				next = time.Now().Add(pause)
				return c.stop(r) != nil
			})
			r.sink.WaitExit(t, 1)
		})
	}
}

// TestTerminalCloseEndsTheWholeTree: jobs, daemons and processes that ignore signals.
func TestTerminalCloseEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.StartTerminal(r.ctx, 1,
		wire.StartTerminal{
			Argv: []string{"bash", "--norc", "-i"},
			Size: pty.Size{Cols: 80, Rows: 24},
		}); err != nil {
		t.Fatal(err)
	}
	r.typed(1, "PS1='$ '; sleep 1002 & setsid -f sleep 1002; nohup sleep 1002 >/dev/null 2>&1 &\r")
	r.typed(1, "bash -c 'trap \"\" HUP TERM INT; sleep 1002' &\recho star''ted\r")
	r.says(1, "started")
	agenttest.Eventually(t, "all run", func() bool { return children(r, "1002") == 4 })
	if err := r.Close(r.ctx, 1); err != nil {
		t.Fatal(err)
	}
	if e := r.sink.WaitExit(t, 1); e.Reason != wire.ReasonKilled {
		t.Errorf("it ended with %+v", e)
	}
	if n := children(r, ""); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	// A close after the shell's exit ends the processes that it left.
	r.shell(2, "setsid -f sleep 1003; exit 3")
	if e := r.sink.WaitExit(t, 2); e.Code != 3 {
		t.Errorf("it ended with %+v", e)
	}
	if err := r.Close(r.ctx, 2); err != nil {
		t.Fatal(err)
	}
	if n := children(r, ""); n != 0 {
		t.Errorf("%d processes are left by the one that exited", n)
	}
}

// TestTerminalOutputIsWhole: all output before the end is sent, and small writes are gathered.
func TestTerminalOutputIsWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 200_000
	begin := time.Now()
	r.shell(
		1, fmt.Sprintf(
			"stty -opost; head -c %d /dev/zero | tr '\\0' x | dd bs=1 status=none; echo end", n))
	r.sink.WaitExit(t, 1)
	got := r.sink.Text(1, 0)
	if len(got) != n+4 || !strings.HasSuffix(got, "xend\n") {
		t.Errorf("%d bytes came, ending in %q", len(got), got[max(0, len(got)-10):])
	}
	r.sink.Mu.Lock()
	defer r.sink.Mu.Unlock()
	// A frame is sent when it is full, or when it has waited long enough.
	if frames, most := len(r.sink.Frames[1]), n/(wire.MaxChunk-page)+
		int(time.Since(begin)/gatherTime)+10; frames > most {
		t.Errorf("%d writes of one byte came in %d frames, want at most %d", n, frames, most)
	}
	for _, f := range r.sink.Frames[1] {
		if len(f.Body) > wire.MaxChunk {
			t.Errorf("a frame has %d bytes", len(f.Body))
		}
	}
}

// TestTerminalPaste: a paste much larger than a terminal's buffer is read as fast as the program
// reads, and arrives complete.
func TestTerminalPaste(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shell(1, "stty raw -echo; echo ready; head -c 3000000 | md5sum")
	r.says(1, "ready")
	block := bytes.Repeat([]byte("0123456789"), 10_000)
	for range 30 {
		agenttest.Eventually(t, "there is room", func() bool {
			err := r.Input(1, block, false)
			if err != nil {
				agenttest.WantKind(t, err, fault.Exhausted)
			}
			return err == nil
		})
	}
	r.sink.WaitExit(t, 1)
	if got := r.sink.Text(1, 0); !strings.Contains(got, "55a95d24c5e52ee25a245028a1768961") {
		t.Errorf("got %q", got)
	}
}
