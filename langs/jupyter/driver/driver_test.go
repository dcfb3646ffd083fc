package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// rig is a driver with a fake kernel.
type rig struct {
	t        *testing.T
	d        *driver
	frames   *frame.Reader
	requests chan kernel.Request
	ended    chan error // ends the requests
	over     chan error // has the result of run
	cells    uint32
}

// newRig starts a driver. mode is the interrupt mode of the kernelspec, and transport the only one
// that the kernel knows, or any.
func newRig(t *testing.T, mode, transport string) *rig {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", "/tmp") // the path of a Unix socket must be short
	spec, err := json.Marshal(map[string]any{
		"argv": []string{os.Args[0], "{connection_file}"}, "language": "fake",
		"interrupt_mode": mode, "env": map[string]string{"FAKE_KERNEL": transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kernel.json"), spec, 0o600); err != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, d: newDriver(to), frames: frame.NewReader(from, 0),
		requests: make(chan kernel.Request), ended: make(chan error), over: make(chan error, 1),
	}
	if err := r.d.start("fake", dir); err != nil {
		t.Fatal(err)
	}
	if ready := r.reply(0, nil); ready.Op != "ready" || ready.Info == nil {
		t.Fatalf("the driver began with %+v", ready)
	}
	go func() { r.over <- r.d.run(r.requests, r.ended) }()
	t.Cleanup(func() {
		select {
		case r.ended <- nil:
			<-r.over
		case <-r.over:
		}
		_ = os.RemoveAll(r.d.process.dir)
	})
	return r
}

// reply reads to the reply with an id, and calls see with the output before it.
func (r *rig) reply(id uint64, see func(frame.Frame)) message.Reply {
	r.t.Helper()
	for {
		f, err := r.frames.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		if f.Type != frame.Control {
			if see != nil {
				see(f)
			}
			continue
		}
		var m message.Reply
		if err := json.Unmarshal(f.Body, &m); err != nil || m.ID != id {
			r.t.Fatalf("in place of the reply %d: %s", id, f.Body)
		}
		return m
	}
}

// begin sends a cell and returns its number.
func (r *rig) begin(code string) uint32 {
	r.cells++
	r.requests <- kernel.Request{Op: "execute", ID: uint64(r.cells), Cell: r.cells, Code: code}
	return r.cells
}

// run executes a cell. see is called with the text so far.
func (r *rig) run(code string, see func(text string)) (string, message.Reply) {
	r.t.Helper()
	return r.collect(r.begin(code), see)
}

// collect reads a cell to its end. see is called with the text so far.
func (r *rig) collect(cell uint32, see func(text string)) (string, message.Reply) {
	r.t.Helper()
	var text strings.Builder
	m := r.reply(uint64(cell), func(f frame.Frame) {
		if f.Type == frame.Message {
			fmt.Fprintf(&text, "%s", f.Body)
			return
		}
		if f.Cell != cell {
			r.t.Errorf("text of the cell %d in the cell %d", f.Cell, cell)
		}
		text.Write(f.Body)
		if see != nil {
			see(text.String())
		}
	})
	return text.String(), m
}

// TestConnectionsBreak: the driver connects again with the same identity. A reply that was lost
// with a connection is reported, and the next cell works.
func TestConnectionsBreak(t *testing.T) {
	r := newRig(t, "", "any")
	for range 3 {
		if text, m := r.run("break", nil); text != "again" || m.Status != "ok" {
			t.Errorf("a cell over broken connections: %q, %+v", text, m)
		}
		if _, m := r.run("lose", nil); m.EName != "ReplyLost" {
			t.Errorf("a lost reply: %+v", m)
		}
	}
}

// TestInterrupts: the kernel is interrupted as its kernelspec says. A cell whose reply an interrupt
// has prevented ends, and a cell that was interrupted before it began is interrupted when it
// begins.
func TestInterrupts(t *testing.T) {
	for _, mode := range []string{"signal", "message"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, mode, "any")
			text, m := r.run("wait", func(text string) {
				if text == "waiting " {
					r.requests <- kernel.Request{Op: "interrupt", Cell: r.cells}
				}
			})
			if !strings.HasPrefix(text, "waiting "+mode) || !strings.Contains(text, `"error"`) ||
				m.EName != "Interrupted" {
				t.Errorf("an interrupted cell: %q, %+v", text, m)
			}
			_, m = r.run("swallow", func(string) {
				r.requests <- kernel.Request{Op: "interrupt", Cell: r.cells}
			})
			if m.EName != "Interrupted" {
				t.Errorf("a cell without a reply: %+v", m)
			}
			cell := r.begin("wait")
			r.requests <- kernel.Request{Op: "interrupt", Cell: cell}
			if text, _ := r.collect(cell, nil); !strings.HasPrefix(text, "waiting "+mode) {
				t.Errorf("a cell that was interrupted early: %q", text)
			}
			cell = r.begin("deaf")
			r.requests <- kernel.Request{Op: "interrupt", Cell: cell}
			if text, _ := r.collect(cell, nil); !strings.HasPrefix(text, "waiting "+mode) {
				t.Errorf("a cell whose kernel drops two interrupts: %q", text)
			}
			if _, m := r.run("nothing", nil); m.Status != "ok" {
				t.Errorf("the next cell: %+v", m)
			}
		})
	}
}

// TestForgedMessage: a message with a wrong signature is dropped.
func TestForgedMessage(t *testing.T) {
	r := newRig(t, "", "any")
	text, m := r.run("forge", nil)
	if strings.Contains(text, "forged") || !strings.Contains(text, "wrong signature") ||
		m.Status != "ok" {
		t.Errorf("a forged message: %q, %+v", text, m)
	}
}

// TestAgentDoesNotRead: the kernel is stopped while the agent does not read, and no output is lost.
func TestAgentDoesNotRead(t *testing.T) {
	r := newRig(t, "", "any")
	r.requests <- kernel.Request{Op: "execute", ID: 1, Cell: 1, Code: "flood"}
	stat := fmt.Sprintf("/proc/%d/stat", r.d.process.cmd.Process.Pid)
	for begin := time.Now(); ; {
		text, err := os.ReadFile(stat)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(text), ") "); rest[0] == 'T' {
			break
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatal("the kernel was not stopped")
		}
	}
	n := 0
	if m := r.reply(1, func(f frame.Frame) { n += len(f.Body) }); m.Status != "ok" || n != 40<<20 {
		t.Errorf("%d bytes came, %+v", n, m)
	}
}

// TestOnlyTCP: a kernel that does not know Unix sockets gets ports.
func TestOnlyTCP(t *testing.T) {
	r := newRig(t, "", "tcp")
	if text, m := r.run("break", nil); text != "again" || m.Status != "ok" {
		t.Errorf("a cell: %q, %+v", text, m)
	}
}

// TestKernelExits: another kernel takes the place of one that the code has ended.
func TestKernelExits(t *testing.T) {
	r := newRig(t, "", "any")
	text, m := r.run("exit", nil)
	if m.ExitCode == nil || *m.ExitCode != 3 || !strings.Contains(text, "state_lost") {
		t.Errorf("a cell that exits: %q, %+v", text, m)
	}
	if _, m := r.run("nothing", nil); m.Status != "ok" {
		t.Errorf("the next cell: %+v", m)
	}
}

// TestKernelDies: its last output comes before its end.
func TestKernelDies(t *testing.T) {
	r := newRig(t, "", "any")
	r.requests <- kernel.Request{Op: "execute", ID: 1, Cell: 1, Code: "die"}
	f, err := r.frames.Next()
	if err != nil || string(f.Body) != "last words" {
		t.Errorf("it printed %q, %v", f.Body, err)
	}
	if err := <-r.over; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("its end is %v", err)
	}
	r.over <- nil
}

// FuzzReceive reads any bytes as messages.
func FuzzReceive(f *testing.F) {
	f.Add(encodeParts([][]byte{[]byte("a"), nil}))
	f.Add(appendFrame(nil, flagCommand, []byte("\x04PING\x00\x00x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &socket{conn: discard{}, in: bufio.NewReader(bytes.NewReader(data))}
		for {
			parts, err := s.receive()
			if err != nil {
				return
			}
			var w signer
			_, _ = w.decode(parts)
		}
	})
}

type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error) { return len(b), nil }
