package gateway

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

var errQuit = errors.New("nobody waits for the run")

// frame takes one frame of the link.
func (r *runner) frame(f stream.Frame) error {
	switch {
	case f.Type == stream.Control:
		var reply protocol.Reply
		if json.Unmarshal(f.Body, &reply) != nil || reply.Ch != runChannel {
			return nil
		}
		switch reply.Event {
		case protocol.EventLost:
			var lost protocol.Lost
			_ = json.Unmarshal(reply.Params, &lost)
			return fault.New(fault.SandboxLost, "gateway.run", "the sandbox ended: %s", lost.Reason)
		case eventError:
			var p fault.Public
			_ = json.Unmarshal(reply.Params, &p)
			return p.Err("gateway.run")
		}
		return nil
	case f.Type != stream.Records || f.Channel != runChannel || len(f.Body) < 8:
		return nil
	}
	offset, rest := binary.BigEndian.Uint64(f.Body), f.Body[8:]
	var events []event
	for len(rest) > 0 && !r.finished {
		rec, tail, err := stream.ParseRecord(rest)
		if err != nil {
			return err
		}
		if rec.Kind != stream.KindGap {
			offset += uint64(rec.Size())
		}
		rest = tail
		more, err := r.record(rec)
		events = append(events, more...)
		if err != nil {
			r.emit(events...)
			return err
		}
	}
	if !r.emit(events...) {
		return errQuit
	}
	if r.finished {
		return nil
	}
	return r.link.Send(stream.Frame{Type: stream.Ack, Channel: runChannel, Body: binary.BigEndian.AppendUint64(nil, offset)})
}

// record turns one record into events.
func (r *runner) record(rec stream.Record) ([]event, error) {
	switch rec.Kind {
	case stream.KindExit:
		var exit protocol.Exit
		_ = json.Unmarshal(rec.Payload, &exit)
		return nil, fault.New(fault.KernelDied, "gateway.run", "the kernel ended: %s", exit.Reason)
	case stream.KindGap:
		var gap stream.Gap
		_ = json.Unmarshal(rec.Payload, &gap)
		r.output.dropped += gap.Bytes
		return nil, nil
	}
	if rec.Cell != r.cell {
		return nil, nil
	}
	switch rec.Kind {
	case stream.KindStdout:
		return r.write(0, rec.Payload), nil
	case stream.KindStderr:
		return r.write(1, rec.Payload), nil
	case stream.KindMessage:
		var m kernel.Message
		if err := json.Unmarshal(rec.Payload, &m); err != nil {
			return nil, fault.Wrap(fault.Internal, "gateway.run", err)
		}
		return r.message(m)
	}
	return nil, nil
}

func (r *runner) write(i int, p []byte) []event {
	text := r.text[i].decode(p)
	if text = r.output.text(text); text == "" {
		return nil
	}
	return []event{{Type: streamName(i), Text: text}}
}

func streamName(i int) string { return [...]string{"stdout", "stderr"}[i] }

// tails is what the decoders still hold: characters that were never finished.
func (r *runner) tails() []event {
	var out []event
	for i := range r.text {
		if text := r.output.text(r.text[i].end()); text != "" {
			out = append(out, event{Type: streamName(i), Text: text})
		}
	}
	return out
}

func (r *runner) truncated() event {
	if r.output.dropped == 0 {
		return event{}
	}
	return event{Type: "truncated", Bytes: r.output.dropped}
}

func (r *runner) message(m kernel.Message) ([]event, error) {
	switch m.Type {
	case kernel.DisplayDataType, kernel.UpdateDisplayType, kernel.ExecuteResultType:
		if !r.output.take(len(m.Content)) {
			return nil, nil
		}
		var b kernel.Bundle
		if err := json.Unmarshal(m.Content, &b); err != nil {
			return nil, fault.Wrap(fault.Internal, "gateway.run", err)
		}
		e := event{Type: "display", Data: b.Data, Metadata: b.Metadata, DisplayID: b.Transient["display_id"], Update: m.Type == kernel.UpdateDisplayType}
		if m.Type == kernel.ExecuteResultType {
			e.Type, e.Count = "result", b.Count
		}
		return []event{e}, nil
	case kernel.ErrorType:
		var k kernel.Error
		if err := json.Unmarshal(m.Content, &k); err != nil {
			return nil, fault.Wrap(fault.Internal, "gateway.run", err)
		}
		// Tracebacks can be made as long as anything else.
		if !r.output.take(len(m.Content)) {
			k.Traceback = nil
			k.EValue = clip(k.EValue, 4096)
		}
		return []event{{Type: "error", EName: clip(k.EName, 4096), EValue: k.EValue, Traceback: k.Traceback}}, nil
	case kernel.ClearOutputType:
		var c kernel.ClearOutput
		_ = json.Unmarshal(m.Content, &c)
		return []event{{Type: "clear", Wait: c.Wait}}, nil
	case kernel.InputRequestType:
		if r.p.Interactive {
			var in kernel.InputRequest
			_ = json.Unmarshal(m.Content, &in)
			return []event{{Type: "input_request", Prompt: clip(in.Prompt, 4096), Password: in.Password}}, nil
		}
		return nil, r.input()
	case kernel.ExecuteReplyType:
		var k kernel.ExecuteReply
		if err := json.Unmarshal(m.Content, &k); err != nil {
			return nil, fault.Wrap(fault.Internal, "gateway.run", err)
		}
		if k.Key != "" && k.Key != r.key {
			return nil, nil
		}
		r.finished = true
		done := event{Type: "done", Status: k.Status, ExitCode: k.ExitCode, ElapsedMS: k.Millis}
		if k.Status != "ok" && max(k.Millis, r.elapsed()) >= float64(r.p.TimeoutMS) {
			done.Status = "timeout"
		}
		return append(r.tails(), r.truncated(), done), nil
	}
	return nil, nil
}

// input answers an input_request with the next line of stdin.
func (r *runner) input() error {
	line, rest, found := strings.Cut(r.stdin, "\n")
	r.stdin = rest
	reply := protocol.InputReply{Cell: r.cell, Value: line, EOF: line == "" && !found}
	return send(r.link, 0, protocol.OpInput, runChannel, reply)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
