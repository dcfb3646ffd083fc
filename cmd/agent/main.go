// Command agent is the first process of a sandbox. It speaks the protocol of
// package wire over its standard input and output. Only the sandbox starts it.
// If it cannot start, it writes one line to its standard error.
//
// Build it with CGO_ENABLED=0, so that it runs in any image.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/sandgate/sandgate/internal/agent"
	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The main goroutine keeps the main thread. The agent gives other threads the
// user's rights, but the main thread represents the process and remains root.
func init() { runtime.LockOSThread() }

func main() {
	err := process.Prepare(process.Limits{})
	if err == nil {
		cfg := agent.Config{Path: os.Getenv("PATH"), Env: os.Environ()}
		err = agent.NewServer(cfg).Serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(fault.KindOf(err).Row().Exit)
	}
}
