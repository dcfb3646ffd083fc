package interpreter

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

const (
	// interruptGrace is how long interrupted code may take to end. Then its kernel is killed, which
	// loses the variables of the context.
	interruptGrace = 8 * time.Second
	// abandonTimeout bounds the wait for the end of code that was given up.
	abandonTimeout = 10 * time.Second
)

// countPrefix begins the line with the count of executions, and mainPrefix that with the result of
// the code.
const (
	countPrefix = `{"type":"number_of_executions","execution_count":`
	mainPrefix  = `{"type":"result","is_main_result":true`
)

// endLine is the last line of code that has ended.
const endLine = `{"type":"end_of_execution"}` + "\n"

// execution is one execution of code. Its lines arrive in batches, each of which ends with a line
// end.
type execution struct {
	base    context.Context
	client  *kernelclient.Client
	cell    uint32
	text    [2]kernelclient.TextDecoder
	erred   bool
	batches chan []byte
	// failed is the error that cuts the response. It is set before batches is closed.
	failed error
	wanted context.Context // ends when stop is called
	stop   func()          // abandons the execution
}

func newExecution(base context.Context, client *kernelclient.Client) *execution {
	e := &execution{base: base, client: client, batches: make(chan []byte)}
	e.wanted, e.stop = context.WithCancel(context.WithoutCancel(base))
	return e
}

// errQuit is the error of an execution that no client waits for.
var errQuit = errors.New("no client waits for the execution")

// follow sends the lines of the execution until its code has ended. If stop is called before, it
// interrupts the code and waits for its end.
func (e *execution) follow() {
	defer e.client.Close()
	defer close(e.batches)
	defer context.AfterFunc(e.base, e.client.Close)()
	defer context.AfterFunc(e.wanted, e.interrupt)()
	err := e.lines()
	switch {
	case err == nil:
	case e.wanted.Err() != nil:
		e.drain()
	case e.base.Err() != nil:
		e.sendFailure("ServerRestarting", "the server is restarting")
	default:
		e.outputEnded(err)
	}
}

// interrupt stops the code that no client waits for. Code that waits in the queue never runs.
func (e *execution) interrupt() {
	stop := protocol.Interrupt{GraceMS: interruptGrace.Milliseconds(), Cell: e.cell}
	_ = e.client.Interrupt(stop) // the link may have ended
	time.AfterFunc(abandonTimeout, e.client.Close)
}

// drain waits until the code has ended. A node may drop an interrupt whose link ends right after it.
func (e *execution) drain() {
	for {
		batch, err := e.client.Next()
		for _, o := range batch {
			if o.Cell == e.cell && o.Message != nil && o.Message.Type == message.ExecuteReplyType {
				return
			}
		}
		if err != nil || e.client.Ack() != nil {
			return
		}
	}
}

// lines sends the lines of the code, until it has ended. Output is acknowledged once the client has
// it. A nil error means that the code has ended.
func (e *execution) lines() error {
	for {
		outputs, err := e.client.Next()
		if err != nil {
			return err
		}
		var b []byte
		ended := false
		for _, o := range outputs {
			if o.Gap == 0 && o.Cell != e.cell {
				continue
			}
			if b, ended = e.outputLines(b, o); ended {
				break
			}
		}
		received := len(b) == 0 || e.send(b)
		switch {
		case ended:
			return nil
		case !received:
			return errQuit
		}
		if err := e.client.Ack(); err != nil {
			return err
		}
	}
}

// send sends a batch and reports whether it was received.
func (e *execution) send(b []byte) bool {
	select {
	case e.batches <- b:
		return true
	case <-e.wanted.Done():
		return false
	}
}

// outputLines appends the lines for one piece of output. ended is true after the last one.
func (e *execution) outputLines(b []byte, o kernelclient.Output) (_ []byte, ended bool) {
	switch {
	case o.Gap > 0:
		note := strconv.FormatInt(o.Gap, 10) + " bytes of output were dropped\n"
		return appendStream(b, 1, note), false
	case o.Stdout != nil:
		return appendStream(b, 0, e.text[0].Decode(o.Stdout)), false
	case o.Stderr != nil:
		return appendStream(b, 1, e.text[1].Decode(o.Stderr)), false
	case o.Message != nil:
		return e.messageLines(b, *o.Message)
	}
	return b, false
}

// messageLines appends the lines for a message of the kernel.
func (e *execution) messageLines(b []byte, m message.Message) (_ []byte, ended bool) {
	switch m.Type {
	case message.ExecuteInputType:
		var in message.ExecuteInput
		_ = json.Unmarshal(m.Content, &in) // the queue writes it
		b = append(b, countPrefix...)
		b = strconv.AppendInt(b, int64(in.Count), 10)
		return append(b, "}\n"...), false
	case message.DisplayDataType, message.ExecuteResultType:
		var v message.Bundle
		if json.Unmarshal(m.Content, &v) == nil { // otherwise there is nothing to show
			b = appendResult(b, v, m.Type == message.ExecuteResultType)
		}
		return b, false
	case message.ErrorType:
		var k message.Error
		_ = json.Unmarshal(m.Content, &k) // an error of an unknown form is still an error
		if k.EName == sandboxLost {
			e.failed = fault.New(fault.SandboxLost, "interpreter.follow", "%s", k.EValue)
			return b, true
		}
		return e.appendError(b, k.EName, k.EValue, strings.Join(k.Traceback, "\n")), false
	case message.ExecuteReplyType:
		return e.replyLines(b, m), true
	}
	return b, false
}

// replyLines appends the lines at the end of the code.
func (e *execution) replyLines(b []byte, m message.Message) []byte {
	for i := range e.text {
		b = appendStream(b, i, e.text[i].End())
	}
	var k message.ExecuteReply
	_ = json.Unmarshal(m.Content, &k) // the queue writes it
	switch {
	case k.Status == "ok":
	case k.Status == "aborted":
		b = e.appendError(b, restarting, "the code did not run, because its context was restarted", "")
	default:
		b = e.appendError(b, k.EName, k.EValue, "")
	}
	return append(b, endLine...)
}

// The error of code whose context has ended, for clients and in our messages.
const (
	restarting  = "ContextRestarting"
	kernelDied  = "KernelDied"
	sandboxLost = "SandboxLost"
)

// colors are the sequences with which a traceback is coloured.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// appendError appends an error, unless the execution already has one.
func (e *execution) appendError(b []byte, name, value, traceback string) []byte {
	if e.erred {
		return b
	}
	e.erred = true
	if name == kernelDied {
		name = restarting
	}
	b = appendText(append(b, `{"type":"error","name":`...), name)
	b = appendText(append(b, `,"value":`...), colors.ReplaceAllString(value, ""))
	b = appendText(append(b, `,"traceback":`...), colors.ReplaceAllString(traceback, ""))
	return append(b, "}\n"...)
}

// appendStream appends text of standard output (0) or standard error (1).
func appendStream(b []byte, stream int, text string) []byte {
	if text == "" {
		return b
	}
	b = append(b, [...]string{`{"type":"stdout","text":`, `{"type":"stderr","text":`}[stream]...)
	b = append(appendText(b, text), `,"timestamp":"`...)
	b = time.Now().UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, "\"}\n"...)
}

// outputEnded ends an execution whose output has ended before its code. A kernel that has ended is
// an error of the code. Any other error cuts the response: clients then ask whether the sandbox still
// runs.
func (e *execution) outputEnded(err error) {
	if fault.Is(err, fault.KernelDied) {
		e.sendFailure(restarting, "the context was removed")
		return
	}
	e.failed = err
}

// sendFailure sends the last lines of an execution that could not be followed to its end.
func (e *execution) sendFailure(name, value string) {
	b := e.appendError(nil, name, value, "")
	e.send(append(b, `{"type":"unexpected_end_of_execution"}`+"\n"...))
}
