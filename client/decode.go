package client

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// decoder converts records to output. It keeps the bytes of characters that a record has cut.
type decoder struct {
	cut map[frame.Kind][]byte
}

// text returns bytes as text, without a character at the end that is not complete.
func (d *decoder) text(kind frame.Kind, payload []byte) string {
	if d.cut == nil {
		d.cut = map[frame.Kind][]byte{}
	}
	all := payload
	if rest := d.cut[kind]; len(rest) > 0 {
		all = append(rest, payload...)
	}
	whole := len(all) - incomplete(all)
	d.cut[kind] = append([]byte(nil), all[whole:]...)
	return strings.ToValidUTF8(string(all[:whole]), "\uFFFD")
}

// incomplete returns how many bytes at the end of b, 0 to 3, begin a character that is cut.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// decode returns the output of a record: none for a kind that this client does not know.
func (d *decoder) decode(r frame.Record) []Output {
	one := func(o Output) []Output { return []Output{o} }
	switch r.Kind {
	case frame.KindStdout:
		return one(Output{Type: OutputStdout, Text: d.text(r.Kind, r.Payload), Bytes: r.Payload})
	case frame.KindStderr:
		return one(Output{Type: OutputStderr, Text: d.text(r.Kind, r.Payload), Bytes: r.Payload})
	case frame.KindMessage:
		var m message.Message
		if json.Unmarshal(r.Payload, &m) == nil {
			return decodeMessage(m, r.Payload)
		}
	case frame.KindGap:
		var g frame.Gap
		if json.Unmarshal(r.Payload, &g) == nil {
			d.cut = nil // later bytes are no continuation
			return one(Output{Type: OutputGap, Missing: g.Bytes})
		}
	case frame.KindExit:
		exit := new(protocol.Exit)
		if json.Unmarshal(r.Payload, exit) == nil {
			return one(Output{Type: OutputExit, Exit: exit})
		}
	case frame.KindRestore:
		if restored, err := wire.Restored(r); err == nil {
			d.cut = nil
			return one(Output{Type: OutputRestore, Bytes: restored.Data})
		}
	case frame.KindEvent:
		return one(Output{Type: OutputOther, Message: r.Payload})
	}
	return nil
}

// decodeMessage returns the output of a kernel's message.
func decodeMessage(m message.Message, whole []byte) []Output {
	into := func(v any) bool { return json.Unmarshal(m.Content, v) == nil }
	switch m.Type {
	case message.ExecuteResultType, message.DisplayDataType, message.UpdateDisplayType:
		var b message.Bundle
		if !into(&b) {
			return nil
		}
		r := &Result{
			Data: b.Data, Metadata: b.Metadata, IsMain: m.Type == message.ExecuteResultType,
		}
		_ = json.Unmarshal(b.Transient["display_id"], &r.DisplayID) // it may be missing
		kind := map[string]string{
			message.ExecuteResultType: OutputResult, message.DisplayDataType: OutputDisplay,
			message.UpdateDisplayType: OutputUpdate,
		}[m.Type]
		return []Output{{Type: kind, Result: r, ExecutionCount: b.Count}}
	case message.ErrorType:
		var e message.Error
		if into(&e) {
			return []Output{{
				Type: OutputError, Error: executionError(e.EName, e.EValue, e.Traceback),
			}}
		}
	case message.ClearOutputType:
		var c message.ClearOutput
		if into(&c) {
			return []Output{{Type: OutputClear, Wait: c.Wait}}
		}
	case message.InputRequestType:
		var ask message.InputRequest
		if into(&ask) {
			return []Output{{
				Type: OutputInput, Text: ask.Prompt, Password: ask.Password, Request: ask.Request,
			}}
		}
	case message.ExecuteReplyType:
		var reply message.ExecuteReply
		if into(&reply) {
			return []Output{done(reply)}
		}
	case message.ExecuteInputType, message.StatusType:
		return nil
	}
	return []Output{{Type: OutputOther, Message: whole}}
}

// done returns the last output of code.
func done(reply message.ExecuteReply) Output {
	o := Output{
		Type: OutputDone, Status: reply.Status, ExecutionCount: reply.Count,
		ExitCode: reply.ExitCode,
		Elapsed:  time.Duration(reply.Millis * float64(time.Millisecond)),
	}
	if reply.Status == "error" {
		o.Error = executionError(reply.EName, reply.EValue, nil)
	}
	return o
}
