// Command kernel runs a session of Go cells: each is compiled by Go's compiler, linked with the
// declarations in this process, and loaded into it. It uses the driver protocol on descriptors 3
// and 4.
//
//	kernel                      a session
//	kernel -check               runs two cells and reports whether they work
//	kernel -program FILE PATH [ARGUMENT]...
//	                            runs an object as a program; descriptor 3 gets
//	                            a byte for each line that it wants to read
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sandgate/sandgate/langs/golang/kernel/session"
	"github.com/sandgate/sandgate/langs/golang/kernel/tools"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

func main() {
	if len(os.Args) >= 4 && os.Args[1] == "-program" {
		runProgram(os.Args[2], os.Args[3], os.Args[4:]...)
		return
	}
	if err := serve(); err != nil {
		// os.Stderr and os.Exit are the session's
		syscall.Write(2, fmt.Appendln(nil, "kernel:", err))
		syscall.Exit(1)
	}
}

func serve() error {
	for _, fd := range []int{3, 4} {
		syscall.CloseOnExec(fd)
	}
	// SIGINT is for the processes that the user has started. It is caught, and not ignored, because
	// child processes would inherit ignoring it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", ".go-kernel-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	dir := tools.Dir(filepath.Dir(filepath.Dir(self)))
	if len(os.Args) == 2 && os.Args[1] == "-check" {
		return check(dir, work)
	}
	out := wire.NewOutput(os.NewFile(4, "output"), 1, 2)
	s, err := session.New(dir, work, out)
	if err != nil {
		return err
	}
	return s.Serve(os.NewFile(3, "requests"))
}
