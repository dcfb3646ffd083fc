package channels

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/internal/jsontext"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// names are those of the streams.
func names(i int) string { return [...]string{"stdout", "stderr"}[i] }

// records writes the records of a frame to the client. It returns the offset after them.
func (c *Conn) records(body []byte) (int64, error) {
	offset := int64(binary.BigEndian.Uint64(body))
	for rest := body[8:]; len(rest) > 0; {
		rec, tail, err := frame.ParseRecord(rest)
		if err != nil {
			return offset, err
		}
		rest = tail
		if rec.Kind != frame.KindGap {
			offset += rec.Size()
		}
		if rec.Kind == frame.KindStdout || rec.Kind == frame.KindStderr {
			err = c.output(rec)
		} else {
			if err = c.sendCollected(); err == nil {
				err = c.otherRecord(rec)
			}
		}
		if err != nil {
			return offset, err
		}
	}
	return offset, c.sendCollected()
}

// output collects text. Texts of one stream that follow each other become one message.
func (c *Conn) output(rec frame.Record) error {
	i := 0
	if rec.Kind == frame.KindStderr {
		i = 1
	}
	x := c.log.cellOf(rec.Cell)
	t := &c.log.text
	if t.cell != x || t.stream != i {
		if err := c.sendCollected(); err != nil {
			return err
		}
		t.cell, t.stream, t.buffer = x, i, c.o.Buffers.get()
		t.buffer.bytes = append(t.buffer.bytes, x.tails[i]...)
		x.tails[i] = nil
	}
	x.input = nil // it was answered
	t.buffer.bytes = append(t.buffer.bytes, rec.Payload...)
	return nil
}

// sendCollected sends the collected text, in messages of at most maxText bytes. A character that is
// not complete waits for its rest.
func (c *Conn) sendCollected() error {
	t := c.log.text
	if t.cell == nil {
		return nil
	}
	c.log.text = collected{}
	defer c.o.Buffers.put(t.buffer)
	for rest := t.buffer.bytes; len(rest) > 0; {
		part := rest[:min(len(rest), maxText)]
		part = part[:kernelclient.Whole(part)]
		if len(part) == 0 {
			t.cell.tails[t.stream] = bytes.Clone(rest)
			break
		}
		rest = rest[len(part):]
		if err := c.sendText(t.cell, names(t.stream), part); err != nil {
			return err
		}
	}
	return nil
}

// sendText sends text that is not empty as a message of a stream.
func (c *Conn) sendText(x *cell, name string, text []byte) error {
	content := c.o.Buffers.get()
	defer c.o.Buffers.put(content)
	content.bytes = appendStream(content.bytes, name, text)
	return c.send(c.compose(wire.IOPub, "stream", x.parent, json.RawMessage(content.bytes)))
}

// appendStream appends the content of a stream message.
func appendStream(b []byte, name string, text []byte) []byte {
	b = append(append(append(b, `{"name":"`...), name...), `","text":`...)
	return append(jsontext.Append(b, text), '}')
}

// cellOf returns a cell. A cell whose beginning is not known has no parent.
func (l *log) cellOf(number uint32) *cell {
	x := l.cells[number]
	if x == nil {
		x = &cell{number: number}
		l.add(x)
	}
	return x
}

// note writes a notice of the server into the output of a cell.
func (c *Conn) note(number uint32, text string) error {
	x := &cell{}
	if number != 0 {
		x = c.log.cellOf(number)
	} else {
		c.out.Lock()
		if c.busy != nil {
			x = c.busy
		}
		c.out.Unlock()
	}
	return c.sendText(x, "stderr", []byte(text+"\n"))
}

// otherRecord handles a record that is not text.
func (c *Conn) otherRecord(rec frame.Record) error {
	switch rec.Kind {
	case frame.KindGap:
		var gap frame.Gap
		_ = json.Unmarshal(rec.Payload, &gap) // the log writes it
		if !c.log.live && !c.log.exact {
			return nil // it was before the part that is replayed
		}
		return c.note(0, fmt.Sprintf("[%d bytes of output were dropped]", gap.Bytes))
	case frame.KindExit:
		var exit protocol.Exit
		_ = json.Unmarshal(rec.Payload, &exit) // the reason may be missing
		why := exit.Reason
		if why == "" {
			why = "closed"
		}
		c.die("the kernel ended: " + why)
		return fault.New(fault.KernelDied, "jupyter.kernel", "the kernel ended: %s", why)
	case frame.KindEvent:
		return c.kernelEvent(rec)
	case frame.KindMessage:
		var m message.Message
		if err := json.Unmarshal(rec.Payload, &m); err != nil {
			return fault.Wrap(fault.Internal, "jupyter.record", err)
		}
		return c.kernelMessage(rec.Cell, m)
	}
	return nil
}

// kernelEvent handles an event of the kernel's channel.
func (c *Conn) kernelEvent(rec frame.Record) error {
	var e struct{ Event, Reason, Message string }
	_ = json.Unmarshal(rec.Payload, &e) // events of other forms have no name
	if e.Event == "taken_over" {
		c.log.doubt.takenOver = true
	}
	if e.Event != "kernel_died" {
		return nil
	}
	c.log.death = e.Reason
	if e.Reason == "restart" || !c.log.live {
		return nil
	}
	return c.note(rec.Cell, e.Message)
}

// kernelMessage handles a message of the kernel or of its queue.
func (c *Conn) kernelMessage(number uint32, m message.Message) error {
	if m.Type == message.ExecuteInputType {
		return c.cellBegins(number, m.Content)
	}
	x := c.log.cellOf(number)
	if m.Type != message.InputRequestType {
		x.input = nil
	}
	switch m.Type {
	case message.ExecuteReplyType:
		return c.cellEnds(x, m.Content)
	case message.StatusType:
		return c.kernelState(m.Content)
	case message.InputRequestType:
		return c.inputRequest(x, m.Content)
	case message.KernelEventType:
		var e message.KernelEvent
		_ = json.Unmarshal(m.Content, &e) // the driver writes it
		if e.Message == "" {
			return nil
		}
		return c.sendText(x, "stderr", []byte(e.Message+"\n"))
	case message.CommOpenType, message.CommMsgType, message.CommCloseType:
		return c.commMessage(x, m)
	case message.ErrorType:
		var e message.Error
		_ = json.Unmarshal(m.Content, &e) // the driver writes it
		x.traceback = e.Traceback
		if x.key == "" { // the reply names the request
			x.failed = m.Content
			return nil
		}
	case message.DisplayDataType, message.UpdateDisplayType, message.ExecuteResultType:
		if isPage(m.Content) {
			return nil // the payload of the reply has it
		}
		m.Content = withMetadata(m.Content)
	}
	return c.send(c.compose(wire.IOPub, m.Type, x.parent, m.Content))
}

// isPage reports whether a display shows what the payload of its cell's reply has.
func isPage(content json.RawMessage) bool {
	var b struct {
		Metadata struct {
			Pager bool `json:"pager"`
		} `json:"metadata"`
	}
	return bytes.Contains(content, []byte(`"pager"`)) &&
		json.Unmarshal(content, &b) == nil && b.Metadata.Pager
}

// withMetadata adds the metadata that clients require.
func withMetadata(content json.RawMessage) json.RawMessage {
	var b struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(content, &b) == nil && len(b.Metadata) > 0 && b.Metadata[0] == '{' {
		return content
	}
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(content, &all) // a content that is no object stays empty
	all["metadata"] = json.RawMessage("{}")
	return encode(all)
}

// cellBegins handles the first record of a cell.
func (c *Conn) cellBegins(number uint32, content json.RawMessage) error {
	var in message.ExecuteInput
	_ = json.Unmarshal(content, &in) // the queue writes it
	x := &cell{number: number, key: in.Key}
	x.parent, x.own = c.parentOf(in.Key)
	c.log.add(x)
	c.out.Lock()
	defer c.out.Unlock()
	c.busy = x
	var all []*wire.Message
	if c.log.shown(x) {
		all = append(all, c.statusOf("busy", x.parent))
	}
	all = append(all, c.compose(wire.IOPub, message.ExecuteInputType, x.parent, map[string]any{
		"code": in.Code, "execution_count": in.Count,
	}))
	if x.own && !c.log.live && !c.log.exact {
		all = append(all, c.compose(wire.IOPub, message.ClearOutputType, x.parent,
			json.RawMessage(`{"wait":false}`)))
	}
	return c.sendLocked(all...)
}

// cellEnds handles the last record of a cell.
func (c *Conn) cellEnds(x *cell, content json.RawMessage) error {
	var r message.ExecuteReply
	_ = json.Unmarshal(content, &r) // the queue writes it
	if x.key == "" {                // it was aborted, or its beginning is not known
		x.key = r.Key
		x.parent, x.own = c.parentOf(r.Key)
	}
	for i, tail := range x.tails {
		if len(tail) == 0 {
			continue
		}
		x.tails[i] = nil
		if err := c.sendText(x, names(i), tail); err != nil {
			return err
		}
	}
	c.requests.Lock()
	delete(c.asked, x.key)
	c.requests.Unlock()
	doubts{c}.check()
	c.out.Lock()
	defer c.out.Unlock()
	if c.busy != nil && c.busy.number == x.number {
		c.busy = nil
	}
	var all []*wire.Message
	if x.failed != nil {
		all = append(all, c.compose(wire.IOPub, message.ErrorType, x.parent, x.failed))
	}
	if !c.log.shown(x) {
		return c.sendLocked(all...)
	}
	if x.own {
		all = append(all, c.compose(wire.Shell, message.ExecuteReplyType, x.parent,
			replyContent(r, x.traceback)))
	}
	all = append(all, c.statusOf("idle", x.parent))
	if c.busy != nil { // the cell was aborted while another one runs
		all = append(all, c.statusOf("busy", c.busy.parent))
	}
	return c.sendLocked(all...)
}

// replyContent returns the content of an execute_reply.
func replyContent(r message.ExecuteReply, traceback []string) map[string]any {
	content := map[string]any{
		"status": r.Status, "execution_count": r.Count, "user_expressions": struct{}{},
		"payload": []any{},
	}
	if len(r.Expressions) > 0 {
		content["user_expressions"] = r.Expressions
	}
	if len(r.Payload) > 0 {
		content["payload"] = r.Payload
	}
	if r.Status == "error" {
		if traceback == nil {
			traceback = []string{}
		}
		content["ename"], content["evalue"], content["traceback"] = r.EName, r.EValue, traceback
	}
	return content
}

// kernelState handles a change of the kernel's state. A kernel that has died starts again with the
// next cell, so that clients see it as restarting and then as idle. A restart that was asked for
// shows only the new kernel. Cells have states of their own, which name the request as their parent.
func (c *Conn) kernelState(content json.RawMessage) error {
	if !c.log.live {
		return nil // the present state follows
	}
	var s message.Status
	_ = json.Unmarshal(content, &s) // the queue writes it
	asked := c.log.death == "restart"
	c.out.Lock()
	defer c.out.Unlock()
	switch s.State {
	case "dead":
		if asked {
			return nil
		}
		c.busy, c.log.state = nil, "starting"
		return c.sendLocked(c.statusOf("restarting", nil), c.statusOf("idle", nil))
	case "restarting", "starting":
		c.log.state = "starting"
	case "idle":
		if c.log.state != "starting" {
			return nil
		}
		c.log.state, c.log.death = s.State, ""
		c.requests.Lock()
		clear(c.comms)
		c.requests.Unlock()
	default:
		return nil
	}
	return c.sendLocked(c.statusOf(c.log.state, nil))
}

// inputRequest asks the client for a line, if it has asked for the cell.
func (c *Conn) inputRequest(x *cell, content json.RawMessage) error {
	if !x.own {
		return nil
	}
	var in message.InputRequest
	_ = json.Unmarshal(content, &in) // the queue writes it
	ask := c.compose(wire.Stdin, message.InputRequestType, x.parent, content)
	ask.Header.ID = c.inputID(x, in.Request)
	if !c.log.live {
		x.input = ask
		return nil
	}
	return c.send(ask)
}

// commMessage sends a message of a widget.
func (c *Conn) commMessage(x *cell, k message.Message) error {
	var v message.Comm
	_ = json.Unmarshal(k.Content, &v) // the driver writes it
	c.requests.Lock()
	switch k.Type {
	case message.CommOpenType:
		if len(c.comms) < maxComms {
			c.comms[v.ID] = v.Target
		}
	case message.CommCloseType:
		delete(c.comms, v.ID)
	}
	c.requests.Unlock()
	if len(v.Data) == 0 {
		v.Data = json.RawMessage("{}")
	}
	content := map[string]any{"comm_id": v.ID, "data": v.Data}
	if k.Type == message.CommOpenType {
		content["target_name"] = v.Target
	}
	out := c.compose(wire.IOPub, k.Type, x.parent, content)
	out.Meta, out.Buffers = v.Metadata, v.Buffers
	return c.send(out)
}

// maxComms is how many open comms a connection remembers.
const maxComms = 10_000
