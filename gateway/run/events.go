package run

import (
	"encoding/json"
	"errors"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/kernel"
)

var errQuit = errors.New("no client waits for the run")

// maxText bounds a prompt and the name of an error, in bytes.
const maxText = 4096

// translate converts one piece of output to events.
func (r *Run) translate(o kernelclient.Output) ([]Event, error) {
	if o.Gap > 0 {
		r.output.dropped += o.Gap
		return nil, nil
	}
	if o.Cell != r.cell {
		return nil, nil
	}
	switch {
	case o.Stdout != nil:
		return r.write(0, o.Stdout), nil
	case o.Stderr != nil:
		return r.write(1, o.Stderr), nil
	case o.Message != nil:
		return r.message(*o.Message)
	}
	return nil, nil
}

func (r *Run) write(i int, p []byte) []Event {
	text := r.output.text(r.text[i].Decode(p))
	if text == "" {
		return nil
	}
	return []Event{{Type: streamName(i), Text: text}}
}

func streamName(i int) string { return [...]string{"stdout", "stderr"}[i] }

// message converts a message of the kernel to events.
func (r *Run) message(m kernel.Message) ([]Event, error) {
	switch m.Type {
	case kernel.DisplayDataType, kernel.UpdateDisplayType, kernel.ExecuteResultType:
		return r.bundle(m)
	case kernel.ErrorType:
		return r.failure(m)
	case kernel.ClearOutputType:
		var c kernel.ClearOutput
		_ = json.Unmarshal(m.Content, &c) // an unknown form clears at once
		return []Event{{Type: "clear", Wait: c.Wait}}, nil
	case kernel.InputRequestType:
		if !r.spec.Request.Interactive {
			return nil, r.answer()
		}
		var in kernel.InputRequest
		_ = json.Unmarshal(m.Content, &in) // an unknown form has no prompt
		prompt := kernelclient.Clip(in.Prompt, maxText)
		return []Event{{Type: "input_request", Prompt: prompt, Password: in.Password}}, nil
	case kernel.ExecuteReplyType:
		return r.done(m)
	}
	return nil, nil
}

func (r *Run) bundle(m kernel.Message) ([]Event, error) {
	if !r.output.admit(len(m.Content)) {
		return nil, nil
	}
	var b kernel.Bundle
	if err := json.Unmarshal(m.Content, &b); err != nil {
		return nil, fault.Wrap(fault.Internal, "run.message", err)
	}
	e := Event{
		Type: "display", Data: b.Data, Metadata: b.Metadata, DisplayID: b.Transient["display_id"],
		Update: m.Type == kernel.UpdateDisplayType,
	}
	if m.Type == kernel.ExecuteResultType {
		e.Type, e.Count = "result", b.Count
	}
	return []Event{e}, nil
}

func (r *Run) failure(m kernel.Message) ([]Event, error) {
	var k kernel.Error
	if err := json.Unmarshal(m.Content, &k); err != nil {
		return nil, fault.Wrap(fault.Internal, "run.message", err)
	}
	// Code can make tracebacks as long as any other output.
	if !r.output.admit(len(m.Content)) {
		k.Traceback = nil
		k.EValue = kernelclient.Clip(k.EValue, maxText)
	}
	name := kernelclient.Clip(k.EName, maxText)
	return []Event{{Type: "error", EName: name, EValue: k.EValue, Traceback: k.Traceback}}, nil
}

// done ends the run at the end of its cell, unless the reply is for other code.
func (r *Run) done(m kernel.Message) ([]Event, error) {
	var k kernel.ExecuteReply
	if err := json.Unmarshal(m.Content, &k); err != nil {
		return nil, fault.Wrap(fault.Internal, "run.message", err)
	}
	if k.Key != "" && k.Key != r.key {
		return nil, nil
	}
	r.finished = true
	done := Event{Type: "done", Status: k.Status, ExitCode: k.ExitCode, ElapsedMS: k.Millis}
	if k.Status != "ok" && max(k.Millis, r.elapsed()) >= float64(r.spec.Request.TimeoutMS) {
		done.Status = "timeout"
	}
	return append(r.tails(), r.truncated(), done), nil
}
