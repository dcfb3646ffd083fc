package main

import (
	"encoding/json"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/message"
)

// nextCell starts the next cell of the queue.
func (d *driver) nextCell() {
	if d.cell != nil || len(d.queue) == 0 {
		return
	}
	d.cell = &cell{Request: d.queue[0]}
	d.queue = d.queue[1:]
	c := d.cell
	expressions := c.Expressions
	if expressions == nil {
		expressions = map[string]string{}
	}
	c.id = d.request(shell, "execute_request", c.Cell, map[string]any{
		"code": c.Code, "silent": c.Silent, "store_history": !c.Silent && !c.NoHistory,
		"user_expressions": expressions,
		"allow_stdin":      !c.NoInput, "stop_on_error": false,
	}, func(content json.RawMessage) { d.executed(c, content) })
}

// executed keeps the reply of a cell until all its output has come.
func (d *driver) executed(c *cell, content json.RawMessage) {
	var x struct {
		outcome
		Count   int               `json:"execution_count"`
		Payload []json.RawMessage `json:"payload"`
		Values  json.RawMessage   `json:"user_expressions"`
	}
	_ = json.Unmarshal(content, &x)
	r := &message.Reply{ID: c.ID, Status: "ok"}
	if !c.Silent {
		r.Count = x.Count
	}
	if x.Status != "ok" {
		r.Status, r.EName, r.EValue = "error", x.EName, x.EValue
		if r.EName == "" {
			r.EName = "Error"
		}
	}
	var pages []json.RawMessage
	for _, p := range x.Payload {
		var source struct {
			Source string `json:"source"`
			Keep   bool   `json:"keepkernel"`
		}
		if json.Unmarshal(p, &source) == nil && source.Source == "ask_exit" {
			r.ExitCode = new(int)
			c.exiting = !source.Keep
			continue
		}
		pages = append(pages, p)
	}
	if len(c.Expressions) > 0 {
		r.Expressions = x.Values
	}
	if len(pages) > 0 {
		r.Payload, _ = json.Marshal(pages)
	}
	if c.reply = r; c.id == "" {
		c.idle = true // the kernel did not take the request
	}
	d.timer.Reset(idleGrace)
	d.finish()
}

// finish ends the cell once its reply and its last output have come.
func (d *driver) finish() {
	c := d.cell
	switch {
	case c == nil || !c.idle:
	case c.reply != nil:
		d.endCell()
	case c.interrupted:
		d.timer.Reset(replyGrace)
	}
}

// overdue ends a cell whose reply or idle does not come.
func (d *driver) overdue() {
	switch c := d.cell; {
	case c == nil:
	case c.reply != nil:
		d.endCell()
	case c.idle && c.interrupted:
		c.reply = &message.Reply{
			ID: c.ID, Status: "error", EName: "Interrupted", EValue: "the cell was interrupted",
		}
		delete(d.pending, c.id)
		d.endCell()
	}
}

func (d *driver) endCell() {
	c := d.cell
	d.cell, d.asked = nil, nil
	d.timer.Stop()
	d.again.Stop()
	if c.interrupted && c.reply.Status == "error" && !c.failed && !c.Silent {
		d.reportInterrupt(c)
	}
	if c.exiting {
		d.exiting, d.exitingCell = c.reply, c.Cell // run starts another kernel first
		return
	}
	d.sendReply(*c.reply)
	d.nextCell()
}

// reportInterrupt publishes the error of an interrupted cell for a kernel that publishes none.
func (d *driver) reportInterrupt(c *cell) {
	c.reply.EName, c.reply.EValue = "Interrupted", "the cell was interrupted"
	content, _ := json.Marshal(message.Error{
		EName: c.reply.EName, EValue: c.reply.EValue,
		Traceback: []string{c.reply.EName + ": " + c.reply.EValue},
	})
	d.sendMessage(c.Cell, message.ErrorType, content)
}

// interrupt interrupts a cell. A cell that the kernel has not begun is interrupted when it begins,
// because a kernel that is idle drops the signal.
func (d *driver) interrupt(number uint32) {
	c := d.cell
	if c != nil && (number == 0 || number == c.Cell) {
		c.interrupted = true
		if c.waiting = !c.began; c.began {
			d.stop(c)
		}
		return
	}
	for i, r := range d.queue {
		if r.Cell == number && number != 0 {
			d.queue = append(d.queue[:i:i], d.queue[i+1:]...)
			d.sendRefusal(r.ID, "Interrupted", "the cell was interrupted before it began")
			return
		}
	}
}

// stop interrupts the running cell.
func (d *driver) stop(c *cell) {
	d.signal()
	if time.Since(c.beginning) < insisting {
		c.insisting = insisting
		d.again.Reset(insisting)
	}
}

// insist interrupts a cell again that an interrupt in its beginning has not ended.
func (d *driver) insist() {
	c := d.cell
	if c == nil || !c.interrupted || c.idle {
		return
	}
	d.signal()
	if c.insisting *= 2; c.insisting <= insistingLimit {
		d.again.Reset(c.insisting)
	}
}

// signal interrupts the kernel in the way that its kernelspec names.
func (d *driver) signal() {
	if d.spec.Interrupt == "message" {
		d.resume()
		d.send(control, "interrupt_request", 0, nil, struct{}{})
		return
	}
	d.process.signal(syscall.SIGINT)
	d.resume()
}

// reseed gives the kernel new randomness and variables of the environment, in languages that the
// driver knows. The kernel does it before the next cell, so the reply does not wait.
func (d *driver) reseed(r kernel.Request) {
	if code := reseedCode(d.language, r.Env, r.Seed); code != "" {
		d.request(shell, "execute_request", 0, map[string]any{
			"code": code, "silent": true, "store_history": false, "user_expressions": struct{}{},
			"allow_stdin": false, "stop_on_error": false,
		}, func(json.RawMessage) {})
	}
	d.sendReply(message.Reply{ID: r.ID})
}
