package run

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/sandgate/sandgate/gateway/created"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

var errQuit = errors.New("no client waits for the run")

// maxText bounds a prompt and the name of an error, in bytes.
const maxText = 4096

// translate converts one piece of output to events.
func (r *Run) translate(o kernelclient.Output) ([]Event, error) {
	if o.Gap > 0 {
		r.output.Dropped += o.Gap
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
	text := r.output.Text(r.text[i].Decode(p))
	if text == "" {
		return nil
	}
	return []Event{{Type: streamName(i), Text: text}}
}

func streamName(i int) string { return [...]string{"stdout", "stderr"}[i] }

// message converts a message of the kernel to events.
func (r *Run) message(m message.Message) ([]Event, error) {
	switch m.Type {
	case message.DisplayDataType, message.UpdateDisplayType, message.ExecuteResultType:
		return r.bundle(m)
	case message.ErrorType:
		return r.failure(m)
	case message.ClearOutputType:
		var c message.ClearOutput
		_ = json.Unmarshal(m.Content, &c) // an unknown form clears at once
		return []Event{{Type: "clear", Wait: c.Wait}}, nil
	case message.InputRequestType:
		var in message.InputRequest
		_ = json.Unmarshal(m.Content, &in) // an unknown form has no prompt
		if !r.spec.Request.Interactive {
			return nil, r.answer(in)
		}
		prompt := kernelclient.Clip(in.Prompt, maxText)
		return []Event{{
			Type: "input_request", Prompt: prompt, Password: in.Password, Request: in.Request,
		}}, nil
	case message.ExecuteReplyType:
		return r.done(m)
	}
	return nil, nil
}

func (r *Run) bundle(m message.Message) ([]Event, error) {
	if !r.output.Admit(len(m.Content)) {
		return nil, nil
	}
	var b message.Bundle
	if err := json.Unmarshal(m.Content, &b); err != nil {
		return nil, fault.Wrap(fault.Internal, "run.message", err)
	}
	e := Event{
		Type: "display", Data: b.Data, Metadata: b.Metadata, DisplayID: b.Transient["display_id"],
		Update: m.Type == message.UpdateDisplayType,
	}
	if m.Type == message.ExecuteResultType {
		e.Type, e.Count = "result", b.Count
	}
	return []Event{e}, nil
}

func (r *Run) failure(m message.Message) ([]Event, error) {
	var k message.Error
	if err := json.Unmarshal(m.Content, &k); err != nil {
		return nil, fault.Wrap(fault.Internal, "run.message", err)
	}
	// Code can make tracebacks as long as any other output.
	if !r.output.Admit(len(m.Content)) {
		k.Traceback = nil
		k.EValue = kernelclient.Clip(k.EValue, maxText)
	}
	name := kernelclient.Clip(k.EName, maxText)
	return []Event{{Type: "error", EName: name, EValue: k.EValue, Traceback: k.Traceback}}, nil
}

// done ends the run at the end of its cell, unless the reply is for other code.
func (r *Run) done(m message.Message) ([]Event, error) {
	var k message.ExecuteReply
	if err := json.Unmarshal(m.Content, &k); err != nil {
		return nil, fault.Wrap(fault.Internal, "run.message", err)
	}
	if k.Key != "" && k.Key != r.key {
		return nil, nil
	}
	r.finished = true
	done := Event{
		Type: "done", Status: k.Status, ExitCode: k.ExitCode, ElapsedMS: k.Millis, Count: k.Count,
	}
	if k.Status != "ok" && max(k.Millis, r.elapsed()) >= float64(r.spec.Request.TimeoutMS) {
		done.Status = "timeout"
	}
	return append(r.tails(), r.truncated(), r.created(), done), nil
}

// contentTimeout bounds the time to read the content of created files.
const contentTimeout = 30 * time.Second

// created returns the event with the files that the run has created; an empty event for none. They
// have their content if the run's session is deleted.
func (r *Run) created() Event {
	files, more := r.files.Files(r.kernel.Request)
	if wanted := r.spec.Wanted; wanted != nil {
		files = slices.DeleteFunc(files, func(f protocol.CreatedFile) bool { return !wanted(f) })
	}
	if len(files) == 0 && !more {
		return Event{}
	}
	if p := r.spec.Request; r.ephemeral && p.KeepSeconds == 0 {
		ctx, cancel := context.WithTimeout(r.r.Base, contentTimeout)
		defer cancel()
		created.Fill(ctx, func(ctx context.Context) (nodecall.Link, error) {
			return r.r.Node.Open(ctx, r.spec.Who)
		}, r.session, files, p.MaxFileBytes)
	} else if r.spec.Link != nil {
		created.Link(r.spec.Link, r.session, files)
	}
	return Event{Type: "files", Files: files, FilesTruncated: more}
}
