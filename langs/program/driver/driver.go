package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// driver performs the requests of the agent. One goroutine reads them, another runs the cells.
type driver struct {
	language kernel.ProgramLanguage
	dir      string // private, for sources and programs
	cells    chan *cell
	ended    chan struct{} // closed when no cell runs any more

	passed atomic.Int64 // counts the reads of programs' output

	writing sync.Mutex // one frame at a time
	out     *frame.Writer

	mu      sync.Mutex // guards all below
	env     []string
	current map[uint32]*cell // sent and not ended
	count   int
}

// maxQueued bounds the cells that wait. The session's queue sends one at a time.
const maxQueued = 64

func newDriver(language kernel.ProgramLanguage, dir string, replies *os.File) *driver {
	d := &driver{
		language: language, dir: dir, out: frame.NewWriter(replies),
		cells: make(chan *cell, maxQueued), ended: make(chan struct{}),
		env: os.Environ(), current: map[uint32]*cell{},
	}
	go func() {
		defer close(d.ended)
		for c := range d.cells {
			d.perform(c)
		}
	}()
	return d
}

// close ends the running program.
func (d *driver) close() {
	d.mu.Lock()
	for _, c := range d.current {
		c.cancel()
	}
	d.mu.Unlock()
	close(d.cells)
	<-d.ended
}

// ready reports that the driver takes requests.
func (d *driver) ready() {
	l, version := d.language, ""
	if len(l.Version) > 0 {
		out, _ := exec.Command(l.Version[0], l.Version[1:]...).Output()
		version, _, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	}
	info := &message.Info{
		Language: l.Name, Version: version,
		Implementation: strings.TrimSpace(l.Tool() + " " + version),
		FileExtension:  extension(l), MIMEType: l.MIME, PID: os.Getpid(),
	}
	if info.MIMEType == "" {
		info.MIMEType = "text/plain"
	}
	d.sendReply(message.Reply{Op: "ready", Info: info})
}

// request performs or queues one request.
func (d *driver) request(f frame.Frame) {
	var r kernel.Request
	if err := json.Unmarshal(f.Body, &r); err != nil || f.Type != frame.Control {
		// If the request has a readable id, its sender gets a reply.
		var who struct {
			ID uint64 `json:"id"`
		}
		_ = json.Unmarshal(f.Body, &who)
		d.sendRefusal(who.ID, "Malformed", "the request cannot be read")
		return
	}
	switch r.Op {
	case "execute":
		c := newCell(r)
		d.mu.Lock()
		d.current[r.Cell] = c
		d.mu.Unlock()
		d.cells <- c
	case "interrupt":
		if c := d.find(r.Cell); c != nil {
			c.interrupt()
		}
	case "input":
		if c := d.find(r.Cell); c != nil {
			c.answerInput(r.Value, r.EOF)
		}
	case "is_complete":
		d.sendReply(message.Reply{ID: r.ID, IsComplete: "unknown"})
	case "complete":
		d.sendReply(message.Reply{ID: r.ID, Start: r.Cursor, End: r.Cursor})
	case "inspect":
		d.sendReply(message.Reply{ID: r.ID})
	case "reseed":
		// Each program asks the system for randomness, which a copy does not repeat.
		d.mu.Lock()
		for name, value := range r.Env {
			d.env = append(d.env, name+"="+value)
		}
		d.mu.Unlock()
		d.sendReply(message.Reply{ID: r.ID})
	case "comm":
	default:
		d.sendRefusal(r.ID, "Unsupported",
			fmt.Sprintf("programs keep no state: there is no operation %q", r.Op))
	}
}

// find returns the cell with a number; the only one for 0.
func (d *driver) find(number uint32) *cell {
	d.mu.Lock()
	defer d.mu.Unlock()
	if number == 0 && len(d.current) == 1 {
		for _, c := range d.current {
			return c
		}
	}
	return d.current[number]
}

// write writes a frame. It waits for the agent, and with it the program whose output this is.
func (d *driver) write(f frame.Frame) {
	// Programs do not get the driver's descriptors 1 and 2, so nothing is in them.
	f.Flags |= frame.FlagClear
	d.writing.Lock()
	defer d.writing.Unlock()
	if d.out.Write(f) != nil {
		os.Exit(1) // the agent has disconnected
	}
}

func (d *driver) sendReply(r message.Reply) {
	if r.Op == "" {
		r.Op = "reply"
	}
	if r.Status == "" {
		r.Status = "ok"
	}
	body, _ := json.Marshal(r) // it has no value that cannot be encoded
	d.write(frame.Frame{Type: frame.Control, Body: body})
}

func (d *driver) sendRefusal(id uint64, name, text string) {
	if id != 0 {
		d.sendReply(message.Reply{ID: id, Status: "error", EName: name, EValue: text})
	}
}

// sendMessage sends a message of a cell.
func (d *driver) sendMessage(cell uint32, kind string, content any) {
	text, err := json.Marshal(content)
	if err != nil {
		return
	}
	body, _ := json.Marshal(message.Message{Type: kind, Content: text})
	d.write(frame.Frame{Type: frame.Message, Cell: cell, Body: body})
}

func extension(l kernel.ProgramLanguage) string {
	if len(l.Extensions) == 0 {
		return ".txt"
	}
	return l.Extensions[0]
}
