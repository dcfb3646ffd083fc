package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// jupyterKernel has cells of a Jupyter kernel of the template octave.
type jupyterKernel struct {
	language string
	streams  string // prints "out" to standard output, and "err" to standard error if it can
	stderr   string // a part of the standard error of streams
	display  string // shows data of the type mime; empty if the template has no such output
	mime     string
	ask      string // asks "n?" for a line and prints it in brackets; empty if it cannot
	keep     string // sets kept to 41
	show     string // prints kept + 1
	loop     string // prints "begun" and then waits for longer than any test
	count    string // prints the numbers from 1 to 60, each in a line, slowly
	fail     string // fails with a message that has the word "broken"
	quiet    bool   // replies ok to a cell that failed or was interrupted
}

// jupyterKernels are the kernels of the template octave. That of Octave is a metakernel.
func jupyterKernels() []jupyterKernel {
	return []jupyterKernel{
		{
			// Octave's kernel asks for input through a prompt that it does not recognize here, and
			// draws with Ghostscript, which the template does not have.
			language: "octave",
			streams:  "disp('out')",
			keep:     "kept = 41;", show: "disp(kept + 1)",
			loop:  "disp('begun'); while true, pause(0.1); end",
			count: "for i = 1:60, disp(i), pause(0.05), end",
			fail:  "error('broken')", quiet: true,
		},
		{
			// IPython's kernel, which is not the warm one of the template.
			language: "python3-jupyter",
			streams:  "import sys; print('out'); print('err', file=sys.stderr)", stderr: "err",
			display: "from IPython.display import HTML; HTML('<b>x</b>')", mime: "text/html",
			ask:  "print([input('n? ')])",
			keep: "kept = 41", show: "print(kept + 1)",
			loop:  "import time; print('begun', flush=True); time.sleep(600)",
			count: "import time\nfor i in range(1, 61): print(i, flush=True); time.sleep(0.05)",
			fail:  "raise ValueError('broken')",
		},
	}
}

// TestJupyterKernels uses the kernel of Octave, a metakernel, and that of IPython, which the server
// knows only from a template's image.
func TestJupyterKernels(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	v := debianTemplate(ctx, t, server, "octave")
	if len(v.Kernelspecs) != 2 {
		t.Fatalf("the template's kernelspecs: %+v", v.Kernelspecs)
	}
	for _, k := range jupyterKernels() {
		t.Run(k.language, func(t *testing.T) {
			s := openWith(t, server, protocol.SessionCreate{Template: "octave", Language: k.language})
			ch, err := s.conn.OpenChannel(s.ctx, protocol.ChannelOpen{Session: s.id, Kind: "kernel"})
			check(t, err)
			if ch.Language != k.language {
				t.Fatalf("the session's kernel is one of %s", ch.Language)
			}
			s.kernel, err = s.conn.Kernel(s.ctx, s.id, ch.ID)
			check(t, err)
			jupyterCells(t, s, k)
			jupyterInterrupts(t, s, k)
			jupyterHibernates(t, s, k)
			jupyterRestarts(t, s, k)
		})
	}
}

// jupyterCells executes cells with streams and an error, and with a display and a question.
func jupyterCells(t *testing.T, s *session, k jupyterKernel) {
	out := s.run("ok", k.streams)
	if strings.TrimSpace(out.stdout) != "out" || !strings.Contains(out.stderr, k.stderr) {
		t.Errorf("streams: %+v", out)
	}
	if k.display != "" {
		jupyterAsks(t, s, k)
	}
	out = s.collect(s.begin(k.fail), nil)
	if !k.quiet && out.reply.Status != "error" ||
		!strings.Contains(out.stdout+out.stderr+out.reply.EValue, "broken") {
		t.Errorf("an error: %+v", out)
	}
}

// jupyterAsks executes cells with a display and a question.
func jupyterAsks(t *testing.T, s *session, k jupyterKernel) {
	out := s.run("ok", k.display)
	shown := append(out.messages[message.DisplayDataType],
		out.messages[message.ExecuteResultType]...)
	if len(shown) != 1 || text(t, shown[0], k.mime) == "" {
		t.Errorf("a display: %+v", out)
	}
	cell := s.begin(k.ask)
	out = s.collect(cell, func(r frame.Record) {
		var m message.Message
		var ask message.InputRequest
		if r.Kind != frame.KindMessage || json.Unmarshal(r.Payload, &m) != nil ||
			m.Type != message.InputRequestType {
			return
		}
		check(t, json.Unmarshal(m.Content, &ask))
		if !strings.Contains(ask.Prompt, "n?") {
			t.Errorf("the question is %+v", ask)
		}
		check(t, s.kernel.Input(s.ctx, protocol.InputReply{Cell: cell.Number(), Value: "Größe"}))
	})
	if !strings.Contains(out.stdout, "['Größe']") || out.reply.Status != "ok" {
		t.Errorf("an answer: %+v", out)
	}
}

// jupyterInterrupts interrupts a cell. The variables stay.
func jupyterInterrupts(t *testing.T, s *session, k jupyterKernel) {
	s.run("ok", k.keep)
	begun := false
	out := s.collect(s.begin(k.loop), func(r frame.Record) {
		if r.Kind == frame.KindStdout && !begun {
			begun = true
			check(t, s.kernel.Interrupt(s.ctx, time.Minute))
		}
	})
	if !k.quiet && out.reply.Status != "error" || !begun {
		t.Errorf("an interrupted cell: %+v", out)
	}
	if got := s.run("ok", k.show).stdout; strings.TrimSpace(got) != "42" {
		t.Errorf("after an interrupt: %q", got)
	}
}

// jupyterHibernates hibernates the session three times while a cell prints. The connections of the
// kernel are in the checkpoint, and no line is lost.
func jupyterHibernates(t *testing.T, s *session, k jupyterKernel) {
	rounds := 0
	out := s.collect(s.begin(k.count), func(r frame.Record) {
		if r.Kind != frame.KindStdout || rounds == 3 || !bytes.ContainsAny(r.Payload, "135") {
			return
		}
		rounds++
		_, err := s.client.HibernateSession(s.ctx, s.id)
		check(t, err)
		_, err = s.client.ResumeSession(s.ctx, s.id)
		check(t, err)
	})
	var want []string
	for i := range 60 {
		want = append(want, fmt.Sprint(i+1))
	}
	if got := strings.Fields(out.stdout); strings.Join(got, " ") != strings.Join(want, " ") ||
		out.reply.Status != "ok" || rounds != 3 {
		t.Errorf("%d hibernations: %q, %+v", rounds, out.stdout, out.reply)
	}
	if got := s.run("ok", k.show).stdout; strings.TrimSpace(got) != "42" {
		t.Errorf("after hibernations: %q", got)
	}
}

// jupyterRestarts restarts the kernel, which loses its variables and then works.
func jupyterRestarts(t *testing.T, s *session, k jupyterKernel) {
	check(t, s.kernel.Restart(s.ctx))
	out := s.collect(s.begin(k.show), nil)
	if strings.Contains(out.stdout, "42") {
		t.Errorf("after a restart: %+v", out)
	}
	if out := s.run("ok", k.streams); strings.TrimSpace(out.stdout) != "out" {
		t.Errorf("after a restart: %+v", out)
	}
}
