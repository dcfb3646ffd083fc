// Command driver runs whole programs of a language that a program file describes. Behind the driver
// protocol each cell is a program. As a command it compiles and runs one source file. README.md in
// the parent folder describes it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
)

// The driver's descriptors, see package kernel.
const (
	requestsFD = 3
	repliesFD  = 4
)

func main() {
	switch {
	case len(os.Args) >= 4 && os.Args[1] == "run":
		os.Exit(runFile(os.Args[2], os.Args[3], os.Args[4:]))
	case len(os.Args) == 2:
		if err := serve(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "program driver:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr,
			"usage: program-driver PROGRAM-FILE, or program-driver run PROGRAM-FILE FILE [ARGUMENT]...")
		os.Exit(2)
	}
}

// serve serves the agent until it closes the requests.
func serve(file string) error {
	// The driver gets SIGINT with its group and drops it. A signal that the driver ignored would
	// be ignored by the programs, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	syscall.CloseOnExec(requestsFD)
	syscall.CloseOnExec(repliesFD)
	language, err := readLanguage(file)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "program-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	d := newDriver(language, dir, os.NewFile(repliesFD, "replies"))
	d.ready()
	frames := frame.NewReader(os.NewFile(requestsFD, "requests"), 0)
	for {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			d.close()
			return nil
		}
		if err != nil {
			d.close()
			return err
		}
		d.request(f)
	}
}

func readLanguage(file string) (kernel.ProgramLanguage, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return kernel.ProgramLanguage{}, err
	}
	return kernel.ParseProgram(text)
}
