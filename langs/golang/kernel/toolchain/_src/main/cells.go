// Package main of compile and link can start before there is work, so that a cell does not wait for
// exec and the start of the runtime.
package main

import (
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// cellWait calls prepare and reads the arguments from standard input, if the only argument requests
// it: one after each NUL. The end of input without any arguments ends the tool.
func cellWait(prepare func()) {
	if len(os.Args) != 2 || os.Args[1] != "-wait" {
		return
	}
	signal.Ignore(syscall.SIGINT) // SIGINT is for the processes that the user has started
	prepare()
	b, err := io.ReadAll(os.Stdin)
	if err != nil || len(b) == 0 {
		os.Exit(0)
	}
	os.Args = append(os.Args[:1], strings.Split(string(b), "\x00")...)
}
