// Command driver is the kernel of Bash: one shell that receives cell after cell. README.md in the
// parent folder describes it.
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
)

// The driver's descriptors, see package kernel.
const (
	requestsFD = 3
	repliesFD  = 4
)

func main() {
	// The agent sends SIGINT after the request for an interrupt. The request is enough for the
	// driver, which sends the signals itself. If it ignored SIGINT, the shell would ignore it too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	syscall.CloseOnExec(requestsFD)
	syscall.CloseOnExec(repliesFD)
	requests := make(chan kernel.Request)
	ended := make(chan error, 1)
	go func() { ended <- read(os.NewFile(requestsFD, "requests"), requests) }()
	d, err := newDriver(os.NewFile(repliesFD, "replies"), requests)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bash driver:", err)
		os.Exit(1)
	}
	err = d.run(ended)
	d.close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bash driver:", err)
		os.Exit(1)
	}
}

// read reads requests until the agent closes them. An invalid request is an error, because the
// agent writes none.
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
