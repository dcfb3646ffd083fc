// Command driver runs a Jupyter kernel behind the driver protocol. Its argument is the folder of a
// kernelspec. README.md in the parent folder describes it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// The driver's descriptors, see package kernel.
const (
	requestsFD = 3
	repliesFD  = 4
)

func main() {
	// The driver gets SIGINT with its group and drops it. A signal that the driver ignored would
	// be ignored by the kernel, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	syscall.CloseOnExec(requestsFD)
	syscall.CloseOnExec(repliesFD)
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: jupyter-driver LANGUAGE KERNELSPEC-FOLDER")
		os.Exit(2)
	}
	d := newDriver(os.NewFile(repliesFD, "replies"))
	if err := d.start(os.Args[1], os.Args[2]); err != nil {
		d.sendReply(message.Reply{Op: "ready", Status: "error", EValue: err.Error()})
		d.out.close()
		os.Exit(1)
	}
	requests := make(chan kernel.Request)
	ended := make(chan error, 1)
	go func() { ended <- read(os.NewFile(requestsFD, "requests"), requests) }()
	err := d.run(requests, ended)
	d.out.close()
	if err != nil && d.process.cmd.ProcessState == nil {
		// The agent reports the end of a kernel itself.
		fmt.Fprintln(os.Stderr, "jupyter driver:", err)
	}
	d.exitAsKernel(err)
}

// exitAsKernel ends the driver as the kernel has ended, so that the agent reports the reason.
func (d *driver) exitAsKernel(err error) {
	_ = os.RemoveAll(d.process.dir)
	_, _ = os.Stderr.WriteString(d.process.words.fatal())
	if state := d.process.cmd.ProcessState; state != nil {
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			signal.Reset(status.Signal())
			_ = syscall.Kill(os.Getpid(), status.Signal())
			select {} // the signal ends the driver
		}
		os.Exit(state.ExitCode())
	}
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// read reads requests until the agent closes them.
func read(from io.Reader, requests chan<- kernel.Request) error {
	frames := frame.NewReader(from, 0)
	for {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if f.Type != frame.Control {
			return fmt.Errorf("a frame of type %d is not a request", f.Type)
		}
		var r kernel.Request
		if err := json.NewDecoder(bytes.NewReader(f.Body)).Decode(&r); err != nil {
			// If the request has a readable id, its sender gets a reply.
			var who struct {
				ID uint64 `json:"id"`
			}
			_ = json.Unmarshal(f.Body, &who)
			r = kernel.Request{ID: who.ID, Op: "malformed", Value: err.Error()}
		}
		requests <- r
	}
}
