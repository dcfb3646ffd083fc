package nodeapi

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxMillis is the maximum of times that requests state in milliseconds.
const maxMillis = int64(24 * time.Hour / time.Millisecond)

func codeTooLarge(op string) error {
	message := fmt.Sprintf("code has at most %d bytes", protocol.MaxCode)
	return &fault.Error{Kind: fault.TooLarge, Op: op, Field: "code", Message: message}
}

func checkExecute(e protocol.Execute) error {
	const op = "execute"
	switch {
	case len(e.Key) > protocol.MaxKey:
		return fault.Invalid(op, "key", "a key has at most %d bytes", protocol.MaxKey)
	case len(e.Code) > protocol.MaxCode:
		return codeTooLarge(op)
	case e.TimeoutMS < 0 || e.TimeoutMS > maxMillis:
		return fault.Invalid(op, "timeout_ms", "a timeout has between 0 and %d milliseconds",
			maxMillis)
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

func checkComplete(p protocol.Complete) error {
	const op = "complete"
	switch {
	case len(p.Code) > protocol.MaxCode:
		return codeTooLarge(op)
	case p.Cursor < 0 || p.Cursor > utf8.RuneCountInString(p.Code):
		return fault.Invalid(op, "cursor", "a cursor lies in the code or at its end")
	case p.Detail < 0 || p.Detail > 1:
		return fault.Invalid(op, "detail", "detail is 0 or 1")
	}
	return nil
}

func checkSignal(name string) error {
	switch name {
	case "SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGSTOP",
		"SIGCONT":
		return nil
	}
	return fault.Invalid("signal", "signal",
		"%.40q is not SIGINT, SIGTERM, SIGKILL, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGSTOP or SIGCONT", name)
}
