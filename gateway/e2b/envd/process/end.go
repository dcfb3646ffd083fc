package process

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/protocol"
)

// endOf translates the end of a process. The status has the form of os.ProcessState.
func endOf(e *protocol.Exit) *wire.ProcessEnd {
	if e.Signal == "" && e.Code >= 0 {
		end := &wire.ProcessEnd{
			ExitCode: int32(e.Code), Exited: true, Status: fmt.Sprintf("exit status %d", e.Code),
		}
		if e.Code != 0 {
			end.Error = &end.Status
		}
		return end
	}
	sig := unix.SignalNum(e.Signal)
	if sig == 0 {
		sig = syscall.SIGKILL // the channel was closed
	}
	end := &wire.ProcessEnd{ExitCode: -1, Status: "signal: " + sig.String()}
	text := end.Status
	if e.Reason == "memory" {
		text += ": the sandbox had no memory left"
	}
	end.Error = &text
	return end
}
