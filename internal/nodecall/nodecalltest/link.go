// Package nodecalltest has a link to a node for tests.
package nodecalltest

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Link is a link whose requests a function answers.
type Link struct {
	answer func(protocol.Request) any
	frames chan frame.Frame
	once   sync.Once
	closed chan struct{}
}

// New returns a link. Send calls answer with each request; the reply has the result that it returns.
// At most 64 replies may wait for Next.
func New(answer func(protocol.Request) (result any)) *Link {
	return &Link{
		answer: answer, frames: make(chan frame.Frame, 64), closed: make(chan struct{}),
	}
}

// Next returns the next reply, or io.EOF once the link is closed.
func (l *Link) Next() (frame.Frame, error) {
	select {
	case <-l.closed:
		return frame.Frame{}, io.EOF
	default:
	}
	select {
	case <-l.closed:
		return frame.Frame{}, io.EOF
	case f := <-l.frames:
		return f, nil
	}
}

// Send answers the requests. Other frames are ignored.
func (l *Link) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		var req protocol.Request
		if f.Type != frame.Control {
			continue
		}
		if err := json.Unmarshal(f.Body, &req); err != nil {
			return err
		}
		result, err := json.Marshal(l.answer(req))
		if err != nil {
			return err
		}
		body, err := json.Marshal(protocol.Reply{ID: req.ID, Result: result})
		if err != nil {
			return err
		}
		l.frames <- frame.Frame{Type: frame.Control, Body: body}
	}
	return nil
}

// Close ends the link.
func (l *Link) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Closed returns a channel that is closed with the link.
func (l *Link) Closed() <-chan struct{} { return l.closed }
