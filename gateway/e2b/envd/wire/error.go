package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Error returns err as an error of Connect. An error with a kind gets the code of the kind and the
// message for clients. An error of Connect stays as it is, and nil stays nil. http.ErrAbortHandler
// cuts the connection.
func Error(err error) error {
	var c *connect.Error
	if errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	if err == nil || errors.As(err, &c) {
		return err
	}
	p := fault.PublicOf(err)
	code := codeOf(p.Kind)
	if p.Cause == fault.CauseExists {
		code = connect.CodeAlreadyExists
	}
	return connect.NewError(code, errors.New(p.Message))
}

// NewError returns an error of Connect with a code.
func NewError(code connect.Code, message string) error {
	return connect.NewError(code, errors.New(message))
}

// codeOf returns the code of Connect for a kind.
func codeOf(kind fault.Kind) connect.Code {
	switch kind {
	case fault.InvalidArgument, fault.Malformed:
		return connect.CodeInvalidArgument
	case fault.TooLarge, fault.Exhausted, fault.DiskFull, fault.Slow:
		return connect.CodeResourceExhausted
	case fault.Unauthenticated:
		return connect.CodeUnauthenticated
	case fault.PermissionDenied:
		return connect.CodePermissionDenied
	case fault.NotFound:
		return connect.CodeNotFound
	case fault.Conflict:
		return connect.CodeFailedPrecondition
	case fault.Unsupported:
		return connect.CodeUnimplemented
	case fault.Unavailable, fault.Restarting, fault.SandboxLost:
		return connect.CodeUnavailable
	case fault.DeadlineExceeded:
		return connect.CodeDeadlineExceeded
	case fault.Canceled:
		return connect.CodeCanceled
	default:
		return connect.CodeInternal
	}
}

// WriteError writes the JSON body of an error of Connect with a status of HTTP.
func WriteError(w http.ResponseWriter, status int, code connect.Code, message string) {
	body, _ := json.Marshal(map[string]string{ // strings have no errors
		"code": code.String(), "message": message,
	})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
}

// cutStreams reports a stream that ends within a message as an error of the client.
type cutStreams struct{}

func (cutStreams) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

func (cutStreams) WrapStreamingClient(next connect.StreamingClientFunc,
) connect.StreamingClientFunc {
	return next
}

func (cutStreams) WrapStreamingHandler(next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, cutConn{conn})
	}
}

type cutConn struct{ connect.StreamingHandlerConn }

func (c cutConn) Receive(msg any) error {
	err := c.StreamingHandlerConn.Receive(msg)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("the message is cut"))
	}
	return err
}
