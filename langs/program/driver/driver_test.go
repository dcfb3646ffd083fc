package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// rig is a driver whose compiler is a copy, and whose programs are shell scripts.
type rig struct {
	t      *testing.T
	driver *driver
	frames *frame.Reader
}

func newRig(t *testing.T, compiler string) *rig {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := kernel.ProgramLanguage{
		Name: "toy", Extensions: []string{".toy"}, Run: []string{"sh", "{program}"},
		Compile: []string{"sh", "-c", compiler, "toyc", "{file}", "{program}"},
	}
	d := newDriver(l, t.TempDir(), w)
	t.Cleanup(func() { d.close(); _ = w.Close(); _ = r.Close() })
	return &rig{t, d, frame.NewReader(r, 0)}
}

func (r *rig) send(q kernel.Request) {
	r.t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.driver.request(frame.Frame{Type: frame.Control, Body: body})
}

// follow reads output until the next reply. see gets the messages.
func (r *rig) follow(see func(m message.Message)) (text [2]string, reply message.Reply) {
	r.t.Helper()
	for {
		f, err := r.frames.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		switch f.Type {
		case frame.Stdout:
			text[0] += string(f.Body)
		case frame.Stderr:
			text[1] += string(f.Body)
		case frame.Message:
			var m message.Message
			if err := json.Unmarshal(f.Body, &m); err != nil {
				r.t.Fatal(err)
			}
			see(m)
		default:
			if err := json.Unmarshal(f.Body, &reply); err != nil {
				r.t.Fatal(err)
			}
			return text, reply
		}
	}
}

// TestPhases compiles and runs programs. The compiler's messages are apart from the output.
func TestPhases(t *testing.T) {
	r := newRig(t, `cp "$1" "$2"; echo "$1:1: warning"; grep -q bad "$1" && echo "$1:2: error: bad" && exit 4; true`)
	var shown []message.Message
	see := func(m message.Message) { shown = append(shown, m) }
	r.send(kernel.Request{Op: "execute", ID: 1, Cell: 1, NoInput: true, Code: "echo out; echo err >&2; exit 3"})
	text, reply := r.follow(see)
	if text != [2]string{"out\n", "err\n"} || reply.Status != "error" || *reply.ExitCode != 3 {
		t.Errorf("a program: %q, %+v", text, reply)
	}
	if len(shown) != 1 || shown[0].Type != message.DisplayDataType ||
		!strings.Contains(string(shown[0].Content), `"text/plain":"main.toy:1: warning\n"`) {
		t.Errorf("its compiler: %+v", shown)
	}
	shown = nil
	r.send(kernel.Request{Op: "execute", ID: 2, Cell: 2, NoInput: true, Code: "echo bad"})
	text, reply = r.follow(see)
	if text != [2]string{} || reply.EName != "CompileError" || *reply.ExitCode != 4 ||
		reply.EValue != "main.toy:2: error: bad" || len(shown) != 1 {
		t.Errorf("a broken program: %q, %+v, %+v", text, reply, shown)
	}
}

// TestInput answers a program that waits for input.
func TestInput(t *testing.T) {
	r := newRig(t, `cp "$1" "$2"`)
	answers := []kernel.Request{{Value: "one"}, {Value: "two\nthree", EOF: true}}
	r.send(kernel.Request{Op: "execute", ID: 1, Cell: 1, Code: "read x; echo $x; cat"})
	text, reply := r.follow(func(m message.Message) {
		var ask message.InputRequest
		if json.Unmarshal(m.Content, &ask) != nil || !ask.Stream || len(answers) == 0 {
			t.Fatalf("asked %+v", m)
		}
		a := answers[0]
		a.Op, a.Cell = "input", 1
		answers = answers[1:]
		r.send(a)
	})
	if text[0] != "one\ntwo\nthree" || reply.Status != "ok" {
		t.Errorf("the program printed %q, %+v", text, reply)
	}
}

// TestInterruptPhases interrupts a program that ignores it, a compiler, and a cell that waits.
func TestInterruptPhases(t *testing.T) {
	began := filepath.Join(t.TempDir(), "began")
	r := newRig(t, `cp "$1" "$2"; grep -q slow "$1" || exit 0; mkfifo `+began+`; echo >`+began+`; sleep 100`)
	r.send(kernel.Request{Op: "execute", ID: 1, Cell: 1, Code: "trap '' INT; read x; while :; do sleep 1; done"})
	_, reply := r.follow(func(m message.Message) {
		if m.Type == message.InputRequestType {
			r.send(kernel.Request{Op: "interrupt", Cell: 1})
		}
	})
	if reply.EName != "Interrupted" {
		t.Errorf("a program: %+v", reply)
	}
	ignore := func(message.Message) {}
	r.send(kernel.Request{Op: "execute", ID: 2, Cell: 2, NoInput: true, Code: "slow"})
	r.send(kernel.Request{Op: "execute", ID: 3, Cell: 3, NoInput: true, Code: "echo no"})
	r.send(kernel.Request{Op: "interrupt", Cell: 3})
	for {
		if _, err := os.Stat(began); err == nil {
			break
		}
	}
	if _, err := os.ReadFile(began); err != nil {
		t.Fatal(err)
	}
	r.send(kernel.Request{Op: "interrupt", Cell: 2})
	if text, reply := r.follow(ignore); reply.ID != 2 || reply.EName != "Interrupted" {
		t.Errorf("a compiler: %q, %+v", text, reply)
	}
	if text, reply := r.follow(ignore); reply.ID != 3 || reply.EName != "Interrupted" ||
		text[0] != "" {
		t.Errorf("a cell that waited: %q, %+v", text, reply)
	}
	r.send(kernel.Request{Op: "variables", ID: 4})
	if _, reply := r.follow(ignore); reply.EName != "Unsupported" {
		t.Errorf("variables: %+v", reply)
	}
}
