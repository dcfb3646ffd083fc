// Command driver is the kernel of Bash: one living shell, fed cell by cell. See
// README.md beside its folder.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/stream"
)

// The driver's descriptors, see package kernel.
const (
	requestsFD = 3
	repliesFD  = 4
)

func main() {
	// A SIGINT is for the shell, which is in the same process group.
	interrupts := make(chan os.Signal, 8)
	signal.Notify(interrupts, syscall.SIGINT)
	syscall.CloseOnExec(requestsFD)
	syscall.CloseOnExec(repliesFD)
	requests := make(chan kernel.Request)
	ended := make(chan error, 1)
	var arrived atomic.Int64
	go func() { ended <- read(os.NewFile(requestsFD, "requests"), requests, &arrived) }()
	d, err := newDriver(os.NewFile(repliesFD, "replies"), interrupts, &arrived)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bash driver:", err)
		os.Exit(1)
	}
	err = d.run(requests, ended)
	d.close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bash driver:", err)
		os.Exit(1)
	}
}

// read takes requests until the agent closes them. What is no request is an
// error: the agent writes none. arrived counts them.
func read(from io.Reader, requests chan<- kernel.Request, arrived *atomic.Int64) error {
	frames := stream.NewReader(from, 0)
	for {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if f.Type != stream.Control {
			return fmt.Errorf("a frame of type %d came where requests do", f.Type)
		}
		var r kernel.Request
		if err := json.NewDecoder(bytes.NewReader(f.Body)).Decode(&r); err != nil {
			// Whoever waits for a reply gets one, if it can be told who.
			var who struct {
				ID uint64 `json:"id"`
			}
			_ = json.Unmarshal(f.Body, &who)
			r = kernel.Request{ID: who.ID, Op: "malformed", Value: err.Error()}
		}
		arrived.Add(1)
		requests <- r
	}
}
