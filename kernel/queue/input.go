package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// maxAnswers is how many answers a queue remembers, to recognise repeats. The oldest is dropped
// first.
const maxAnswers = 256

// Answer is an answer that the kernel got. Digest is that of its value, which may be a password.
type Answer struct {
	Cell    uint32 `json:"cell"`
	Request uint32 `json:"request"`
	Digest  []byte `json:"digest"`
}

// Input answers the open input_request of a cell. A repeat of an answer that names its request has
// no effect. Errors: Conflict if the request has another answer, or is not open.
func (q *Queue) Input(p protocol.InputReply) error {
	const op = protocol.OpInput
	digest := digestOf(p)
	q.mu.Lock()
	for _, a := range q.answers {
		if p.Request == 0 || a.Cell != p.Cell || a.Request != p.Request {
			continue
		}
		q.mu.Unlock()
		if bytes.Equal(a.Digest, digest) {
			return nil
		}
		return fault.New(fault.Conflict, op, "request %d of cell %d has another answer",
			p.Request, p.Cell)
	}
	x, k := q.running, q.kernel
	if x == nil || k == nil || x.cell != p.Cell || !x.asking {
		q.mu.Unlock()
		return fault.New(fault.Conflict, op, "cell %d is not waiting for input", p.Cell)
	}
	if p.Request != 0 && p.Request != x.asked {
		defer q.mu.Unlock()
		return fault.New(fault.Conflict, op, "cell %d waits for the answer to request %d", p.Cell,
			x.asked)
	}
	x.asking = false
	if len(q.answers) >= maxAnswers {
		q.answers = slices.Delete(q.answers, 0, 1)
	}
	q.answers = append(q.answers, Answer{p.Cell, x.asked, digest})
	q.mu.Unlock()
	return k.driver.Notify(kernel.Request{Op: "input", Cell: p.Cell, Value: p.Value, EOF: p.EOF})
}

func digestOf(p protocol.InputReply) []byte {
	end := byte(0)
	if p.EOF {
		end = 1
	}
	sum := sha256.Sum256(append([]byte{end}, p.Value...))
	return sum[:]
}

// Observe examines each message of the kernel before the caller writes it to the log, and returns
// what to write: nil for nothing. It numbers input requests, and answers those of a cell without
// input. It drops messages that only the queue writes: a program in the kernel's process can write
// messages as the driver does, and must not begin or end cells in the log.
func (q *Queue) Observe(cell uint32, body []byte) []byte {
	if forged(body) {
		return nil
	}
	ask, ok := inputRequest(body)
	if !ok {
		return body
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.running
	if x == nil || x.cell != cell {
		return body
	}
	if x.NoInput {
		select {
		case x.input <- struct{}{}:
		default:
		}
		return nil
	}
	x.asking = true
	x.asked++
	ask.Request = x.asked
	content, _ := json.Marshal(ask) // texts and numbers
	body, _ = json.Marshal(message.Message{Type: message.InputRequestType, Content: content})
	return body
}

// forged reports whether a message has a type that only the queue writes.
func forged(body []byte) bool {
	named := false
	for _, name := range []string{
		message.StatusType, message.ExecuteInputType, message.ExecuteReplyType,
	} {
		named = named || bytes.Contains(body, []byte(`"`+name+`"`))
	}
	if !named && !bytes.Contains(body, []byte(`\u00`)) {
		return false
	}
	var m struct {
		Type string `json:"msg_type"`
	}
	_ = json.Unmarshal(body, &m) // clients cannot read it either
	switch m.Type {
	case message.StatusType, message.ExecuteInputType, message.ExecuteReplyType:
		return true
	}
	return false
}

// inputRequest returns the content of a message that is an input_request. It parses only messages
// that name that type at their beginning, where every driver writes it.
func inputRequest(body []byte) (ask message.InputRequest, ok bool) {
	if !bytes.Contains(body[:min(len(body), 256)], []byte(message.InputRequestType)) {
		return ask, false
	}
	var m message.Message
	if json.Unmarshal(body, &m) != nil || m.Type != message.InputRequestType {
		return ask, false
	}
	_ = json.Unmarshal(m.Content, &ask) // an unknown form has no prompt
	return ask, true
}
