package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

const (
	// maxText is the size of a frame with text, in bytes.
	maxText = 1 << 20
	// maxComms is how many comms are attributed to the cells that opened them.
	maxComms = 10_000
)

// publish handles a message of the channel iopub.
func (d *driver) publish(p packet) {
	number := d.wire.cellOf(p.parent.ID)
	c := d.cell
	ours := c != nil && p.parent.ID == c.id
	if ours && c.reply != nil {
		d.timer.Reset(idleGrace)
	}
	switch p.header.Type {
	case message.StatusType:
		var s message.Status
		if !ours || json.Unmarshal(p.content, &s) != nil {
			return
		}
		switch s.State {
		case "busy":
			if c.Silent {
				d.beginCell(c)
			}
		case "idle":
			c.idle = true
			d.finish()
		}
	case message.ExecuteInputType:
		if ours {
			d.beginCell(c)
		}
	case "stream":
		d.stream(number, p.content)
	case message.DisplayDataType, message.UpdateDisplayType, message.ExecuteResultType,
		message.ErrorType, message.ClearOutputType:
		if ours {
			d.beginCell(c)
			c.failed = c.failed || p.header.Type == message.ErrorType
		}
		d.sendMessage(number, p.header.Type, p.content)
	case message.CommOpenType, message.CommMsgType, message.CommCloseType:
		d.publishComm(number, p)
	}
}

// beginCell notes that the kernel has begun a cell.
func (d *driver) beginCell(c *cell) {
	if !c.began {
		c.began, c.beginning = true, time.Now()
	}
	if c.waiting {
		c.waiting = false
		d.stop(c)
	}
}

func (d *driver) stream(cell uint32, content json.RawMessage) {
	var s struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &s) != nil {
		return
	}
	kind := frame.Stdout
	if s.Name == "stderr" {
		kind = frame.Stderr
	}
	for text := s.Text; text != ""; {
		n := min(len(text), maxText)
		d.write(frame.Frame{Type: kind, Cell: cell, Body: []byte(text[:n])})
		text = text[n:]
	}
}

// sendMessage sends a message of a cell. In place of one that is too large, a line of text reports
// its size.
func (d *driver) sendMessage(cell uint32, kind string, content json.RawMessage) {
	body, err := json.Marshal(message.Message{Type: kind, Content: content})
	if err == nil && len(body) <= frame.MaxBody {
		d.write(frame.Frame{Type: frame.Message, Cell: cell, Body: body})
		return
	}
	why := "is not valid"
	if err == nil {
		why = fmt.Sprintf("has %d bytes, the limit is %d", len(body), frame.MaxBody)
	}
	d.write(frame.Frame{
		Type: frame.Stderr, Cell: cell, Body: fmt.Appendf(nil, "\n[a %s %s]\n", kind, why),
	})
}

// publishComm passes a message of the kernel's end of a widget. Later output for the widget belongs
// to the cell that opened it.
func (d *driver) publishComm(cell uint32, p packet) {
	var c message.Comm
	if json.Unmarshal(p.content, &c) != nil {
		return
	}
	switch p.header.Type {
	case message.CommOpenType:
		if len(d.comms) < maxComms {
			d.comms[c.ID] = cell
		}
	case message.CommCloseType:
		delete(d.comms, c.ID)
	}
	if c.Metadata = nil; string(orEmpty(p.meta)) != "{}" {
		c.Metadata = p.meta
	}
	c.Buffers = p.buffers
	content, err := json.Marshal(c)
	if err == nil {
		d.sendMessage(cell, p.header.Type, content)
	}
}
