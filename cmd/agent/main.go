// Command agent is the first process of a sandbox. It speaks the wire of
// package agent over its standard input and output, and is started by nobody
// but the sandbox. Its standard error gets one line if it cannot start.
//
// Build it with CGO_ENABLED=0: it runs in whatever image it is put into.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent"
)

// The main thread stays the main goroutine's, and so root's: the agent gives
// other threads the user's rights, and this one stands for the process.
func init() { runtime.LockOSThread() }

func main() {
	err := agent.Prepare(agent.Limits{})
	if err == nil {
		err = agent.NewServer(agent.Config{Path: os.Getenv("PATH")}).Serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(fault.KindOf(err).Row().Exit)
	}
}
