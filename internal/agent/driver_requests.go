package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// request passes a request to the driver. The driver's reply answers it.
// answered is true for a request that has no reply.
func (c *channel) request(host uint64, q kernel.Request) (answered bool, err error) {
	const op = "agent.kernel.request"
	if !c.isKernel() {
		return false, fault.New(fault.Conflict, op, "channel %d is not a kernel", c.id)
	}
	switch q.Op {
	case "input", "interrupt", "comm":
		return true, c.sendRequest(q, nil)
	case "execute", "complete", "inspect", "is_complete", "variables", "reseed",
		"keep", "restore":
		p := &pending{host: host, exec: q.Op == "execute"}
		if q.Timed {
			q.Timed, p.began = false, time.Now()
		}
		return false, c.sendRequest(q, p)
	}
	return false, fault.Invalid(op, "op", "kernels have no operation %q", q.Op)
}

// requestOwn sends a request of the agent itself. The returned channel gets one
// error or nil.
func (c *channel) requestOwn(q kernel.Request) chan error {
	tell := make(chan error, 1)
	if err := c.sendRequest(q, &pending{done: tell}); err != nil {
		tell <- err
	}
	return tell
}

// sendRequest writes a request to the driver and keeps p until its reply.
func (c *channel) sendRequest(q kernel.Request, p *pending) error {
	const op = "agent.kernel.request"
	if p != nil && p.exec {
		c.left.sweep.Lock()
		defer c.left.sweep.Unlock()
	}
	c.mu.Lock()
	q.ID = 0
	var err error
	switch {
	case c.over:
		err = fault.New(fault.KernelDied, op, "the kernel has ended")
	case p != nil && len(c.pending) >= wire.MaxPending:
		c.s.refused.Add(1)
		err = fault.New(fault.Exhausted, op, "%d requests wait for the kernel", len(c.pending))
	case p != nil:
		c.nextID++
		q.ID = c.nextID
	}
	if err == nil {
		var body []byte
		if body, err = json.Marshal(q); err == nil && len(body) > frame.MaxBody {
			err = fault.New(fault.TooLarge, op, "the request is over 8 MiB")
		}
		if err == nil {
			err = c.in.write(frame.Append(make([]byte, 0, frame.HeaderSize+len(body)),
				frame.Frame{Type: frame.Control, Body: body}), false)
		}
	}
	if err == nil && p != nil {
		c.pending[q.ID] = *p
		if p.exec {
			c.cells = append(c.cells, execution{q.ID, q.Cell, time.Now()})
		}
	}
	c.mu.Unlock()
	if err == nil && c.in.waiting() >= 0 {
		c.wake()
	}
	return err
}

// execution is an execute without a reply.
type execution struct {
	id   uint64
	cell uint32
	sent time.Time
}

// outputCell returns the cell that text from the pipes belongs to. It is the
// oldest execute without a reply, because the driver takes them in order.
// Without one it is the last execute, whose child processes and threads may
// still write.
func (c *channel) outputCell() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cells) == 0 {
		return c.lastCell
	}
	return c.cells[0].cell
}

// executing reports whether an execute has no reply yet.
func (c *channel) executing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.cells) > 0
}

func (c *channel) isReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

// reply handles a control message of the driver and reports whether it was a
// valid one. It appends the response to the host to out.
func (l *loop) reply(body []byte) bool {
	c := l.c
	var r struct {
		Op     string        `json:"op"`
		ID     uint64        `json:"id"`
		Status string        `json:"status"`
		EValue string        `json:"evalue"`
		Info   *message.Info `json:"info"`
	}
	if json.Unmarshal(body, &r) != nil {
		return false
	}
	switch r.Op {
	case "ready":
		c.mu.Lock()
		first := !c.ready && c.startErr == nil && r.Status != "error"
		c.ready = c.ready || first
		c.mu.Unlock()
		if r.Status == "error" {
			c.failStart(fault.New(fault.KernelDied, "agent.kernel.start",
				"the kernel could not start: %s", clip(r.EValue, 512)))
			c.s.reap.Kill(c.pid, true, syscall.SIGKILL)
		}
		if first {
			c.startTimer.Stop()
			info := message.Info{Language: c.manifest.Name}
			if r.Info != nil {
				info = *r.Info
			}
			info.PID = c.pid
			l.flush()
			c.s.respond(c.startID, info, nil)
			l.tail = nil
		}
		return true
	case "reply":
	default:
		return false
	}
	c.mu.Lock()
	p, ok := c.pending[r.ID]
	delete(c.pending, r.ID)
	var ended execution
	if p.exec {
		for _, e := range c.cells {
			if e.id == r.ID {
				c.lastCell, ended = e.cell, e
			}
		}
		c.cells = slices.DeleteFunc(c.cells, func(e execution) bool { return e.id == r.ID })
	}
	c.mu.Unlock()
	if ended.cell != 0 {
		l.cellEnded(ended)
		l.explainNetworkError(ended.cell)
	}
	switch {
	case !ok:
		c.s.stray.Add(1)
	case p.done != nil:
		var err error
		if r.Status == "error" {
			err = fault.New(fault.Host, "agent.kernel.request", "the kernel answered: %s",
				clip(r.EValue, 512))
		}
		p.done <- err
	case p.host == 0:
	case len(body) > frame.MaxBody-64:
		c.s.respond(p.host, nil, fault.New(fault.TooLarge, "agent.kernel.request",
			"the kernel's reply is over 8 MiB"))
	default:
		l.out = appendResult(l.out, p.host, p.took(), body)
	}
	return true
}

// took returns how many microseconds a timed request has taken, at least 1, or
// 0 for a request that is not timed.
func (p pending) took() int64 {
	if p.began.IsZero() {
		return 0
	}
	return max(1, time.Since(p.began).Microseconds())
}

// appendResult appends the frame of a Response whose result is valid JSON
// already.
func appendResult(b []byte, id uint64, took int64, result []byte) []byte {
	head := strconv.AppendUint(nil, id, 10)
	if took > 0 {
		head = append(head, `,"took_us":`...)
		head = strconv.AppendInt(head, took, 10)
	}
	size := len(`{"id":,"result":}`) + len(head) + len(result)
	b = frame.Append(b, frame.Frame{Type: frame.Control})
	at := len(b) - frame.HeaderSize
	b[at], b[at+1], b[at+2], b[at+3] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
	b = append(b, `{"id":`...)
	b = append(b, head...)
	b = append(b, `,"result":`...)
	b = append(b, result...)
	return append(b, '}')
}

// protocolError ends a driver that broke the protocol.
func (l *loop) protocolError(what string) {
	c := l.c
	l.broken, l.full, l.size, l.due = true, false, 0, [2]int{}
	l.ev, l.off = nil, 0
	l.closeEvents()
	c.mu.Lock()
	if c.reason == "" && c.end == nil {
		c.reason = wire.ReasonProtocol
		c.message = "the kernel " + what + " and was killed"
	}
	c.mu.Unlock()
	c.s.garbage.Add(1)
	c.s.reap.Kill(c.pid, true, syscall.SIGKILL)
}

// failPending answers all requests that wait for an ended channel, and frees
// its number. It reports whether the start of the channel had succeeded.
func (c *channel) failPending(x wire.Exit) bool {
	c.mu.Lock()
	waiting := c.pending
	c.pending, c.cells, c.over = nil, nil, true
	started, err := c.ready, c.startErr
	c.mu.Unlock()
	if !c.isKernel() {
		return true
	}
	c.startTimer.Stop()
	how := x.Message
	if how == "" {
		how = "it exited"
	}
	if !started {
		if err == nil {
			said := bytes.TrimSpace(c.loop.tail)
			if i := bytes.LastIndexByte(said, '\n'); i >= 0 {
				said = said[i+1:]
			}
			if len(said) > 0 {
				how += ", saying: " + clip(string(said), 512)
			}
			err = fault.New(fault.KernelDied, "agent.kernel.start",
				"the kernel ended before it was ready: %s", how)
		}
		c.s.respond(c.startID, nil, err)
	}
	for _, p := range waiting {
		p.fail(c.s, fault.New(fault.KernelDied, "agent.kernel.request", "the kernel died: %s", how))
	}
	return started
}

// fail answers a request that gets no reply.
func (p pending) fail(s *Server, err error) {
	if p.done != nil {
		p.done <- err
		return
	}
	s.respond(p.host, nil, err)
}

// clip shortens s to n bytes, and to valid UTF-8.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
