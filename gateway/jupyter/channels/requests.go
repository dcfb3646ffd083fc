package channels

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// read handles the client's messages until the connection ends.
func (c *Conn) read() error {
	for {
		data, isBinary, err := c.socket.Read()
		if err != nil {
			return err
		}
		m, err := wire.Decode(data, c.o.V1, isBinary)
		if err != nil {
			return err
		}
		if err := c.handle(&m); err != nil {
			return err
		}
	}
}

// handle handles one message. An error ends the connection.
func (c *Conn) handle(m *wire.Message) error {
	var err error
	switch m.Header.Type {
	case "execute_request":
		err = c.execute(m)
	case "input_reply":
		err = c.input(m)
	case "kernel_info_request":
		err = c.kernelInfo(m)
	case "complete_request", "inspect_request", "is_complete_request":
		err = c.ask(m)
	case "history_request":
		err = c.history(m)
	case "comm_info_request":
		return c.answer(m, c.commInfo(m))
	case "comm_open", "comm_msg", "comm_close":
		err = c.comm(m)
	case "interrupt_request":
		err = c.call(protocol.OpInterrupt, protocol.Interrupt{}, c.done(m, nil))
	case "shutdown_request":
		err = c.shutdown(m)
	default:
		err = fault.New(fault.Unsupported, "jupyter.request",
			"this kernel does not answer messages of the type %.64q", m.Header.Type)
	}
	if known := fault.PublicOf(err); err != nil && fault.KindOf(err) != fault.Unavailable {
		return c.answer(m, failure(known))
	}
	return err
}

// failure is the content of the reply to a request that failed.
func failure(p fault.Public) map[string]any {
	return map[string]any{
		"status": "error", "ename": string(p.Kind), "evalue": p.Message, "traceback": []string{},
	}
}

// answer sends the reply to a request with the states around it. Clients wait for both, and show the
// last state: the state of a cell that runs comes last.
func (c *Conn) answer(m *wire.Message, content any) error {
	kind, isRequest := strings.CutSuffix(m.Header.Type, "_request")
	c.out.Lock()
	defer c.out.Unlock()
	all := []*wire.Message{c.statusOf("busy", m.Raw)}
	if isRequest {
		all = append(all, c.compose(m.Channel, kind+"_reply", m.Raw, content))
	}
	all = append(all, c.statusOf("idle", m.Raw))
	if c.busy != nil {
		all = append(all, c.statusOf("busy", c.busy.parent))
	}
	return c.sendLocked(all...)
}

// done returns the function that answers a request once the node has replied. make returns the
// content from the node's result; nil means that it has only a status.
func (c *Conn) done(m *wire.Message, content func(json.RawMessage) any) func(protocol.Reply) {
	return func(r protocol.Reply) {
		var v any = map[string]string{"status": "ok"}
		switch {
		case r.Error != nil:
			v = failure(*r.Error)
		case content != nil:
			v = content(r.Result)
		}
		_ = c.answer(m, v) // the next write of the connection fails as well
	}
}

// execute queues a cell. The message's id is the idempotency key, so that a client may send it
// again.
func (c *Conn) execute(m *wire.Message) error {
	p := struct {
		Code        string `json:"code"`
		Silent      bool   `json:"silent"`
		AllowStdin  bool   `json:"allow_stdin"`
		StopOnError *bool  `json:"stop_on_error"`
		Store       *bool  `json:"store_history"`
		// Expressions are mostly an empty object.
		Expressions map[string]string `json:"user_expressions"`
	}{}
	if err := json.Unmarshal(m.Content, &p); err != nil {
		return fault.Invalid("jupyter.execute", "content", "the content of the request is not valid")
	}
	key := keyOf(m.Header)
	c.requests.Lock()
	if len(c.asked) >= maxAsked {
		c.requests.Unlock()
		return fault.New(fault.Exhausted, "jupyter.execute", "too many cells wait")
	}
	head := *m
	head.Raw = append(json.RawMessage(nil), m.Raw...)
	c.asked[key] = request{header: head.Raw, epoch: c.written.Epoch, sent: time.Now()}
	c.requests.Unlock()
	head.Parent, head.Content, head.Meta, head.Buffers = nil, nil, nil, nil
	forget := func() {
		c.requests.Lock()
		defer c.requests.Unlock()
		delete(c.asked, key)
	}
	err := c.call(protocol.OpExecute, protocol.Execute{
		Key: key, Code: p.Code, Silent: p.Silent, NoInput: !p.AllowStdin,
		KeepGoing: p.StopOnError != nil && !*p.StopOnError,
		NoHistory: p.Store != nil && !*p.Store, Expressions: p.Expressions,
	}, func(r protocol.Reply) {
		if r.Error != nil {
			forget()
			content := failure(*r.Error)
			content["execution_count"] = 0
			_ = c.answer(&head, content) // the next write of the connection fails as well
		}
	})
	if err != nil {
		forget()
	}
	return err
}

// input answers the input_request of a cell. Gateways may drop the parent, so that the cell is the
// one that runs.
func (c *Conn) input(m *wire.Message) error {
	var p struct {
		Value string `json:"value"`
	}
	if err := json.Unmarshal(m.Content, &p); err != nil {
		return fault.Invalid("jupyter.input", "value", "the value is not a string")
	}
	a, ok := c.answered(m.Parent)
	c.out.Lock()
	x := c.busy
	c.out.Unlock()
	switch {
	case ok && !a.meets(x), !ok && x == nil:
		return nil // the cell has ended
	case !ok:
		a.cell = x.number
	}
	return nodecall.Send(c.link, 0, protocol.OpInput, c.number,
		protocol.InputReply{Cell: a.cell, Request: a.request, Value: p.Value})
}

// kernelInfo describes the kernel, once it has started.
func (c *Conn) kernelInfo(m *wire.Message) error {
	c.requests.Lock()
	info := c.info
	c.requests.Unlock()
	if len(info) > 0 && string(info) != "null" {
		return c.answer(m, infoContent(c.view.Language, info))
	}
	describe := func(protocol.Reply) {
		err := c.call(protocol.OpChannelList, protocol.SessionRef{Session: c.o.Session},
			c.done(m, func(raw json.RawMessage) any {
				var all protocol.ChannelList
				_ = json.Unmarshal(raw, &all) // then the kernel is not in it
				for _, k := range all.Channels {
					if k.ID == c.o.Channel {
						c.requests.Lock()
						c.info = k.Info
						c.requests.Unlock()
						return infoContent(c.view.Language, k.Info)
					}
				}
				return infoContent(c.view.Language, nil)
			}))
		if err != nil {
			_ = c.answer(m, failure(fault.PublicOf(err))) // the next write fails as well
		}
	}
	if c.view.State == "idle" || c.view.State == "busy" {
		describe(protocol.Reply{})
		return nil
	}
	return c.call(protocol.OpComplete, protocol.Complete{}, describe)
}

// infoContent is the content of a kernel_info_reply.
func infoContent(language string, raw json.RawMessage) map[string]any {
	i := message.Info{Language: language}
	_ = json.Unmarshal(raw, &i) // a kernel without a description has a small one
	name, version := i.Implementation, i.Version
	if at := strings.LastIndexByte(name, ' '); at > 0 {
		name, version = name[:at], name[at+1:]
	}
	about := map[string]any{
		"name": LanguageName(i.Language), "version": i.Version, "mimetype": i.MIMEType,
		"file_extension": i.FileExtension, "pygments_lexer": LanguageName(i.Language),
	}
	if i.Language == "python" {
		about["pygments_lexer"] = "ipython3"
		about["codemirror_mode"] = map[string]any{"name": "ipython", "version": 3}
		about["nbconvert_exporter"] = "python"
	}
	return map[string]any{
		"status": "ok", "protocol_version": wire.Version, "implementation": name,
		"implementation_version": version, "language_info": about, "banner": i.Banner,
		"help_links": []any{}, "debugger": false, "supported_features": []string{},
	}
}

// LanguageName returns the name that Jupyter's clients know a language by.
func LanguageName(language string) string {
	if language == "golang" {
		return "go"
	}
	return language
}

// ask passes a question about code to the kernel. Positions are in code points on both sides.
func (c *Conn) ask(m *wire.Message) error {
	var p struct {
		Code   string `json:"code"`
		Cursor int    `json:"cursor_pos"`
		Detail int    `json:"detail_level"`
	}
	if err := json.Unmarshal(m.Content, &p); err != nil {
		return fault.Invalid("jupyter.ask", "content", "the content of the request is not valid")
	}
	op := strings.TrimSuffix(m.Header.Type, "_request")
	if p.Cursor == 0 && op == protocol.OpIsComplete {
		p.Cursor = len([]rune(p.Code))
	}
	return c.call(op, protocol.Complete{Code: p.Code, Cursor: p.Cursor, Detail: p.Detail},
		func(r protocol.Reply) {
			var k message.Reply
			if r.Error == nil {
				_ = json.Unmarshal(r.Result, &k) // the driver writes it
			}
			_ = c.answer(m, asked(op, p.Cursor, k)) // the next write fails as well
		})
}

// asked is the content of the reply to a question. A kernel that does not answer knows nothing.
func asked(op string, cursor int, k message.Reply) map[string]any {
	switch op {
	case protocol.OpComplete:
		if len(k.Matches) == 0 {
			k.Start, k.End = cursor, cursor
		}
		texts, types := []string{}, []any{}
		for _, m := range k.Matches {
			texts = append(texts, m.Text)
			types = append(types, map[string]any{
				"start": k.Start, "end": k.End, "text": m.Text, "type": m.Type,
			})
		}
		return map[string]any{
			"status": "ok", "matches": texts, "cursor_start": k.Start, "cursor_end": k.End,
			"metadata": map[string]any{"_jupyter_types_experimental": types},
		}
	case protocol.OpInspect:
		data := k.Data
		if data == nil {
			data = map[string]json.RawMessage{}
		}
		return map[string]any{
			"status": "ok", "found": k.Found, "data": data, "metadata": struct{}{},
		}
	}
	state := k.IsComplete
	if state == "" {
		state = "unknown"
	}
	return map[string]any{"status": state, "indent": k.Indent}
}

// history answers with the code that the kernel has run.
func (c *Conn) history(m *wire.Message) error {
	var p historyRequest
	if err := json.Unmarshal(m.Content, &p); err != nil {
		return fault.Invalid("jupyter.history", "content",
			"the content of the request is not valid")
	}
	return c.call(protocol.OpHistory, struct{}{}, c.done(m, func(raw json.RawMessage) any {
		var h protocol.History
		_ = json.Unmarshal(raw, &h) // the node writes it
		return map[string]any{"status": "ok", "history": p.choose(h.Entries)}
	}))
}

// commInfo lists the open comms.
func (c *Conn) commInfo(m *wire.Message) any {
	var p struct {
		Target *string `json:"target_name"`
	}
	_ = json.Unmarshal(m.Content, &p) // then all are listed
	all := map[string]any{}
	c.requests.Lock()
	defer c.requests.Unlock()
	for id, target := range c.comms {
		if p.Target == nil || *p.Target == "" || *p.Target == target {
			all[id] = map[string]string{"target_name": target}
		}
	}
	return map[string]any{"status": "ok", "comms": all}
}

// comm passes a message of a widget to the kernel.
func (c *Conn) comm(m *wire.Message) error {
	var v message.Comm
	if err := json.Unmarshal(m.Content, &v); err != nil {
		return fault.Invalid("jupyter.comm", "content", "the content of the message is not valid")
	}
	c.requests.Lock()
	switch m.Header.Type {
	case message.CommOpenType:
		if len(c.comms) < maxComms {
			c.comms[v.ID] = v.Target
		}
	case message.CommCloseType:
		delete(c.comms, v.ID)
	}
	c.requests.Unlock()
	v.Buffers = m.Buffers
	if string(m.Meta) != "{}" {
		v.Metadata = m.Meta
	}
	return c.call(protocol.OpComm, message.Message{Type: m.Header.Type, Content: encode(v)},
		func(r protocol.Reply) {
			if r.Error != nil {
				_ = c.sendText(&cell{parent: m.Raw}, "stderr",
					[]byte(r.Error.Message+"\n"))
			}
			_ = c.answer(m, nil) // the next write fails as well
		})
}

// shutdown restarts or ends the kernel.
func (c *Conn) shutdown(m *wire.Message) error {
	var p struct {
		Restart bool `json:"restart"`
	}
	_ = json.Unmarshal(m.Content, &p) // then it ends
	answer := c.done(m, func(json.RawMessage) any {
		return map[string]any{"status": "ok", "restart": p.Restart}
	})
	if p.Restart {
		return c.call(protocol.OpRestart, struct{}{}, answer)
	}
	// The kernel's end closes the connection, so the reply comes first.
	if err := c.answer(m, map[string]any{"status": "ok", "restart": false}); err != nil {
		return err
	}
	return c.call(protocol.OpChannelClose,
		protocol.ChannelRef{Session: c.o.Session, Channel: c.o.Channel}, nil)
}
