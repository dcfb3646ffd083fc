package main

import (
	"encoding/json"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/message"
)

// perform performs a request of the agent.
func (d *driver) perform(r kernel.Request) {
	switch r.Op {
	case "execute":
		d.queue = append(d.queue, r)
		d.nextCell()
	case "input":
		d.input(r)
	case "interrupt":
		d.interrupt(r.Cell)
	case "comm":
		d.comm(r.Comm)
	case "complete":
		d.request(shell, "complete_request", 0,
			map[string]any{"code": r.Code, "cursor_pos": r.Cursor}, completed(d, r.ID))
	case "inspect":
		d.request(shell, "inspect_request", 0, map[string]any{
			"code": r.Code, "cursor_pos": r.Cursor, "detail_level": r.Detail,
		}, inspected(d, r.ID))
	case "is_complete":
		d.request(shell, "is_complete_request", 0, map[string]any{"code": r.Code}, judged(d, r.ID))
	case "reseed":
		d.reseed(r)
	case "malformed":
		d.sendRefusal(r.ID, "Malformed", "the request cannot be read: %s", r.Value)
	case "variables":
		d.variables(r)
	default:
		d.sendRefusal(r.ID, "Unsupported", "there is no operation %q", r.Op)
	}
}

// outcome is what all replies of a kernel have.
type outcome struct {
	Status string `json:"status"`
	EName  string `json:"ename"`
	EValue string `json:"evalue"`
}

// failed answers a request whose reply is an error.
func (d *driver) failed(id uint64, o outcome) bool {
	if o.Status == "ok" || o.Status == "" {
		return false
	}
	if o.EName == "" {
		o.EName = "Error"
	}
	d.sendReply(message.Reply{ID: id, Status: "error", EName: o.EName, EValue: o.EValue})
	return true
}

func completed(d *driver, id uint64) func(json.RawMessage) {
	return func(content json.RawMessage) {
		var c struct {
			outcome
			Matches  []string `json:"matches"`
			Start    int      `json:"cursor_start"`
			End      int      `json:"cursor_end"`
			Metadata struct {
				// Types is an extension of ipykernel, in the order of the matches or its own.
				Types []struct {
					Text string `json:"text"`
					Type string `json:"type"`
				} `json:"_jupyter_types_experimental"`
			} `json:"metadata"`
		}
		_ = json.Unmarshal(content, &c)
		if d.failed(id, c.outcome) {
			return
		}
		types := map[string]string{}
		for _, t := range c.Metadata.Types {
			if t.Type != "<unknown>" {
				types[t.Text] = t.Type
			}
		}
		r := message.Reply{ID: id, Start: c.Start, End: c.End}
		for _, m := range c.Matches {
			r.Matches = append(r.Matches, message.Match{Text: m, Type: types[m]})
		}
		d.sendReply(r)
	}
}

func inspected(d *driver, id uint64) func(json.RawMessage) {
	return func(content json.RawMessage) {
		var c struct {
			outcome
			Found bool                       `json:"found"`
			Data  map[string]json.RawMessage `json:"data"`
		}
		_ = json.Unmarshal(content, &c)
		if !d.failed(id, c.outcome) {
			d.sendReply(message.Reply{ID: id, Found: c.Found, Data: c.Data})
		}
	}
}

func judged(d *driver, id uint64) func(json.RawMessage) {
	return func(content json.RawMessage) {
		var c struct {
			outcome
			Indent string `json:"indent"`
		}
		_ = json.Unmarshal(content, &c)
		// The field status has the judgement here.
		if c.Status == "error" {
			d.failed(id, c.outcome)
			return
		}
		r := message.Reply{ID: id, IsComplete: c.Status, Indent: c.Indent}
		if r.IsComplete == "" {
			r.IsComplete = "unknown"
		}
		d.sendReply(r)
	}
}

// input answers the kernel's request for input. Jupyter has no end of file: kernels take the
// character that a terminal's control-D types.
func (d *driver) input(r kernel.Request) {
	if d.asked == nil {
		return
	}
	value := r.Value
	if r.EOF {
		value = "\x04"
	}
	d.send(stdin, "input_reply", 0, d.asked, map[string]string{"status": "ok", "value": value})
	d.asked = nil
}

// comm passes a message to the kernel's end of a widget.
func (d *driver) comm(raw json.RawMessage) {
	var m struct {
		Type    string       `json:"msg_type"`
		Content message.Comm `json:"content"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	switch m.Type {
	case message.CommOpenType, message.CommMsgType, message.CommCloseType:
	default:
		return
	}
	c := m.Content
	content := map[string]any{"comm_id": c.ID, "data": json.RawMessage(orEmpty(c.Data))}
	if c.Target != "" {
		content["target_name"] = c.Target
	}
	id := d.wire.newID(d.comms[c.ID])
	b, err := d.wire.encode(id, m.Type, nil, c.Metadata, content, c.Buffers)
	if err != nil {
		return
	}
	if !d.links[shell].send(b) {
		if d.lost++; d.lost == 1 {
			d.notice(errCommLost)
		}
		return
	}
	d.lost = 0
}
