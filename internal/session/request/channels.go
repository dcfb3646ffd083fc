package request

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// MaxMillis is the maximum of times that requests state in milliseconds.
const MaxMillis = int64(24 * time.Hour / time.Millisecond)

func codeTooLarge(op string) error {
	message := fmt.Sprintf("code has at most %d bytes", protocol.MaxCode)
	return &fault.Error{Kind: fault.TooLarge, Op: op, Field: "code", Message: message}
}

// CheckExecute checks an execute.
func CheckExecute(e protocol.Execute) error {
	const op = "execute"
	switch {
	case len(e.Key) > protocol.MaxKey:
		return fault.Invalid(op, "key", "a key has at most %d bytes", protocol.MaxKey)
	case len(e.Code) > protocol.MaxCode:
		return codeTooLarge(op)
	case e.TimeoutMS < 0 || e.TimeoutMS > MaxMillis:
		return fault.Invalid(op, "timeout_ms", "a timeout has between 0 and %d milliseconds",
			MaxMillis)
	}
	return checkExpressions(e.Expressions)
}

// The bounds of the expressions of an execute, which are kept while it waits.
const (
	maxExpressions     = 64
	maxExpressionBytes = 64 << 10
)

func checkExpressions(all map[string]string) error {
	bytes := 0
	for name, code := range all {
		bytes += len(name) + len(code)
	}
	if len(all) > maxExpressions || bytes > maxExpressionBytes {
		return fault.Invalid("execute", "user_expressions",
			"there are at most %d expressions, with %d bytes in all", maxExpressions,
			maxExpressionBytes)
	}
	return nil
}

// CheckComplete checks a question about code.
func CheckComplete(p protocol.Complete) error {
	const op = "complete"
	switch {
	case len(p.Code) > protocol.MaxCode:
		return codeTooLarge(op)
	case p.Cursor < 0 || p.Cursor > utf8.RuneCountInString(p.Code):
		return fault.Invalid(op, "cursor", "a cursor lies in the code or at its end")
	case p.Detail < 0 || p.Detail > 1:
		return fault.Invalid(op, "detail", "detail is 0 or 1")
	case len(p.About) > protocol.MaxCode:
		return codeTooLarge(op)
	}
	return nil
}

// CheckSignal checks the name of a signal.
func CheckSignal(name string) error {
	switch name {
	case "SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGSTOP",
		"SIGCONT":
		return nil
	}
	return fault.Invalid("signal", "signal",
		"%.40q is not SIGINT, SIGTERM, SIGKILL, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGSTOP or SIGCONT", name)
}

// CheckComm checks a message to a widget.
func CheckComm(m message.Message) error {
	const op = protocol.OpComm
	switch m.Type {
	case message.CommOpenType, message.CommMsgType, message.CommCloseType:
	default:
		return fault.Invalid(op, "msg_type", "%.40q is not comm_open, comm_msg or comm_close",
			m.Type)
	}
	var content message.Comm
	if json.Unmarshal(m.Content, &content) != nil {
		return fault.Invalid(op, "content", "the content is not valid for a comm message")
	}
	if content.ID == "" || len(content.ID) > protocol.MaxKey {
		return fault.Invalid(op, "content.comm_id", "a comm's id has between 1 and %d bytes",
			protocol.MaxKey)
	}
	return nil
}
