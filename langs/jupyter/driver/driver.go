package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

const (
	// replyGrace is how long an interrupted cell's reply may come after the kernel is idle. An
	// interrupt that hits the kernel's own code can prevent the reply.
	replyGrace = 500 * time.Millisecond
	// idleGrace is how long the channel of outputs must be quiet after a cell's reply until the
	// cell ends without the kernel's report that it is idle.
	idleGrace = 10 * time.Second
	// insisting is how long after an interrupt in the beginning of a cell the cell is interrupted
	// again: the kernel may have dropped the first one. Each further interrupt waits twice as long,
	// because a busy machine begins a cell slowly, and none waits longer than insistingLimit.
	insisting      = 300 * time.Millisecond
	insistingLimit = 10 * time.Second
	// lastWords is how long the outputs of a kernel that has ended may take.
	lastWords = 200 * time.Millisecond
	// farewell is how long a kernel may take to end when it is asked to.
	farewell = time.Second
)

// driver is the kernel's other end. Its own goroutine handles one event after another.
type driver struct {
	spec     kernelspec
	out      *outbox
	process  *process
	links    [channels]*link
	wire     *signer
	language string // the kernel's name of its language

	arrivals chan arrival
	drained  chan struct{}
	// pending are the requests without a reply, by the id of their message.
	pending map[string]func(content json.RawMessage)
	order   []string // their ids, the oldest first

	queue []kernel.Request
	cell  *cell
	timer *time.Timer // ends a cell whose reply or idle does not come
	// again interrupts a cell again.
	again *time.Timer
	// asked is the header of the request for input that waits for an answer.
	asked json.RawMessage
	// comms has the cell that opened each comm.
	comms   map[string]uint32
	stopped bool
	// exiting is the reply to a cell that asked the kernel to exit.
	exiting     *message.Reply
	exitingCell uint32
	lost        int // comm messages that the kernel did not take
}

// cell is the running execution.
type cell struct {
	kernel.Request
	id          string // the id of its message
	reply       *message.Reply
	began, idle bool
	beginning   time.Time
	interrupted bool
	waiting     bool          // an interrupt waits for its beginning
	exiting     bool          // the code asked the kernel to exit
	failed      bool          // the kernel has published an error
	insisting   time.Duration // how long the next interrupt waits
}

func newDriver(replies *os.File) *driver {
	var session [16]byte
	rand.Read(session[:]) // never fails
	d := &driver{
		wire:     &signer{session: hex.EncodeToString(session[:])},
		arrivals: make(chan arrival), drained: make(chan struct{}, 1),
		pending: map[string]func(json.RawMessage){}, comms: map[string]uint32{},
		timer: time.NewTimer(time.Hour), again: time.NewTimer(time.Hour),
	}
	d.out = newOutbox(replies, func() {
		select {
		case d.drained <- struct{}{}:
		default:
		}
	})
	return d
}

// run serves until the requests end or the kernel ends.
func (d *driver) run(requests <-chan kernel.Request, ended <-chan error) error {
	for {
		if d.exiting != nil {
			if err := d.replace(); err != nil {
				return err
			}
		}
		select {
		case r := <-requests:
			d.perform(r)
		case a := <-d.arrivals:
			d.arrive(a)
		case <-d.drained:
			d.resume()
		case <-d.timer.C:
			d.overdue()
		case <-d.again.C:
			d.insist()
		case <-d.process.exited:
			d.lastWords()
			if d.cell != nil && d.cell.exiting {
				d.endCell()
			}
			if d.exiting == nil {
				return d.process.death()
			}
		case err := <-ended:
			d.dismiss()
			return err
		}
	}
}

// lastWords takes the outputs that the kernel wrote before its end.
func (d *driver) lastWords() {
	end := time.After(lastWords)
	for {
		select {
		case a := <-d.arrivals:
			d.arrive(a)
		case <-end:
			return
		}
	}
}

// dismiss ends the kernel.
func (d *driver) dismiss() {
	d.resume()
	d.send(control, "shutdown_request", 0, nil, map[string]bool{"restart": false})
	end := time.After(farewell)
	for {
		select {
		case <-d.arrivals:
		case <-d.process.exited:
			return
		case <-end:
			d.process.kill()
			return
		}
	}
}

// write queues a frame and stops the kernel if the agent is far behind.
func (d *driver) write(f frame.Frame) {
	if d.out.add(f) && !d.stopped && d.process != nil {
		d.stopped = true
		d.process.signal(syscall.SIGSTOP)
	}
}

func (d *driver) resume() {
	if d.stopped {
		d.stopped = false
		d.process.signal(syscall.SIGCONT)
	}
}

func (d *driver) sendReply(r message.Reply) {
	if r.Op == "" {
		r.Op = "reply"
	}
	if r.Status == "" {
		r.Status = "ok"
	}
	body, err := json.Marshal(r)
	if err != nil || len(body) > frame.MaxBody {
		body, _ = json.Marshal(message.Reply{
			Op: r.Op, ID: r.ID, Status: "error", EName: "TooLarge",
			EValue: "the answer is over 8 MiB",
		})
	}
	d.write(frame.Frame{Type: frame.Control, Body: body})
}

func (d *driver) sendRefusal(id uint64, name, format string, args ...any) {
	if id != 0 {
		d.sendReply(message.Reply{
			ID: id, Status: "error", EName: name, EValue: fmt.Sprintf(format, args...),
		})
	}
}

// send sends a message and returns its id; "" if the kernel does not take it.
func (d *driver) send(c channel, kind string, cell uint32, parent json.RawMessage,
	content any,
) string {
	id := d.wire.newID(cell)
	m, err := d.wire.encode(id, kind, parent, nil, content, nil)
	if err != nil || !d.links[c].send(m) {
		return ""
	}
	return id
}

// request sends a request, and calls then with the content of its reply.
func (d *driver) request(c channel, kind string, cell uint32, content any,
	then func(content json.RawMessage),
) string {
	id := d.send(c, kind, cell, nil, content)
	if id == "" {
		then(refusal("Exhausted", "the kernel has not read its last requests"))
		return ""
	}
	d.pending[id] = then
	d.order = append(d.order, id)
	return id
}

// refusal is the content of a reply that the kernel did not send.
func refusal(name, text string) json.RawMessage {
	body, _ := json.Marshal(map[string]string{"status": "error", "ename": name, "evalue": text})
	return body
}

// answer passes a reply to its request.
func (d *driver) answer(id string, content json.RawMessage) {
	then := d.pending[id]
	if then == nil {
		return
	}
	delete(d.pending, id)
	for i, other := range d.order {
		if other == id {
			d.order = append(d.order[:i], d.order[i+1:]...)
			break
		}
	}
	then(content)
}

// arrive handles a message of the kernel.
func (d *driver) arrive(a arrival) {
	switch {
	case a.err != nil:
		d.notice(a.err)
		return
	case a.again:
		d.reconnected(a.channel)
		return
	}
	p, err := d.wire.decode(a.parts)
	if err != nil {
		d.notice(err)
		return
	}
	switch a.channel {
	case shell, control:
		d.answer(p.parent.ID, p.content)
	case stdin:
		if p.header.Type == message.InputRequestType {
			d.asked = p.rawHead
			d.sendMessage(d.wire.cellOf(p.parent.ID), message.InputRequestType, p.content)
		}
	case iopub:
		d.publish(p)
	}
}

// reconnected follows the kernel's requests after the connection of a channel was lost. A reply
// that the kernel sent meanwhile is lost. The kernel answers in order: once it answers a new
// request, older ones will not be answered.
func (d *driver) reconnected(c channel) {
	if c != shell || len(d.order) == 0 {
		return
	}
	older := append([]string(nil), d.order...)
	d.request(shell, "kernel_info_request", 0, struct{}{}, func(json.RawMessage) {
		for _, id := range older {
			d.answer(id, refusal("ReplyLost", "the connection to the kernel broke, and its reply is lost"))
		}
	})
}

// notice reports a problem of the connection.
func (d *driver) notice(err error) {
	content, _ := json.Marshal(message.KernelEvent{Event: "notice", Message: err.Error()})
	d.sendMessage(0, message.KernelEventType, content)
}

var errCommLost = errors.New("the kernel does not read: messages to widgets are lost")
