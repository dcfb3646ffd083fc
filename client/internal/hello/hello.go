// Package hello begins the conversation on a WebSocket and explains its end. Its errors say whether
// reconnecting can succeed.
package hello

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// FinalError marks an error after which the client does not reconnect.
type FinalError struct{ Err error }

func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *FinalError) Unwrap() error { return e.Err }

// CloseError returns the error of a WebSocket that has ended.
func CloseError(err error) error {
	const op = "client.conn"
	code := int(websocket.CloseStatus(err))
	for _, row := range fault.Table() {
		if row.Close != code {
			continue
		}
		var ce websocket.CloseError
		message := row.Advice
		if errors.As(err, &ce) && ce.Reason != "" {
			message = ce.Reason
		}
		e := fault.New(row.Kind, op, "%s", message)
		if code >= 3500 && code <= 3999 {
			return &FinalError{e}
		}
		return e
	}
	if code >= 3500 && code <= 3999 {
		return &FinalError{fault.New(fault.Unsupported, op,
			"the server ended the connection with code %d", code)}
	}
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, Message: "the connection was lost",
		Err: err,
	}
}

// Send sends the request hello and reads the reply.
func Send(ctx context.Context, ws *websocket.Conn, h protocol.Hello) error {
	const op = "client.hello"
	params, err := json.Marshal(h)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	body, err := json.Marshal(protocol.Request{ID: 1, Op: protocol.OpHello, Params: params})
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	if err := ws.Write(ctx, websocket.MessageText, body); err != nil {
		return CloseError(err)
	}
	_, text, err := ws.Read(ctx)
	if err != nil {
		return CloseError(err)
	}
	var reply protocol.Reply
	var welcome protocol.Welcome
	if err := json.Unmarshal(text, &reply); err != nil {
		return &fault.Error{
			Kind: fault.Malformed, Op: op,
			Message: "the server's first message is not a reply", Err: err,
		}
	}
	if reply.Error != nil {
		e := reply.Error.Err(op)
		if e.Kind.Row().Close >= 3500 {
			return &FinalError{e}
		}
		return e
	}
	if err := json.Unmarshal(reply.Result, &welcome); err != nil ||
		welcome.Protocol != protocol.Subprotocol {
		return &FinalError{fault.New(fault.Unsupported, op,
			"the server uses the protocol %q, this client %s", welcome.Protocol,
			protocol.Subprotocol)}
	}
	return nil
}
