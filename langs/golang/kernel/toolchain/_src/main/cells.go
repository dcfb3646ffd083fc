// Package main of compile and link can be started before it has work: exec and
// the start of the runtime then cost a cell nothing.
package main

import (
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// cellWait calls prepare and reads the arguments from standard input, when the
// only argument says so: one after each NUL. The end of input without any
// arguments ends the tool.
func cellWait(prepare func()) {
	if len(os.Args) != 2 || os.Args[1] != "-wait" {
		return
	}
	signal.Ignore(syscall.SIGINT) // it is meant for what the user has started
	prepare()
	b, err := io.ReadAll(os.Stdin)
	if err != nil || len(b) == 0 {
		os.Exit(0)
	}
	os.Args = append(os.Args[:1], strings.Split(string(b), "\x00")...)
}
