package server

import (
	"context"
	"errors"

	"github.com/sandgate/sandgate/internal/console"
)

// supervise runs the parts until ctx ends or one of them cannot start. It stops them from the last
// to the first: the gateway closes its clients' connections before the node ends the sandboxes.
func supervise(ctx context.Context, parts []*child) error {
	type running struct {
		cancel context.CancelFunc
		done   chan struct{}
	}
	failed := make(chan error, len(parts))
	all := make([]running, len(parts))
	for i, p := range parts {
		// Each has a context of its own, so that they stop in order.
		own, cancel := context.WithCancel(context.Background())
		all[i] = running{cancel: cancel, done: make(chan struct{})}
		go func() {
			defer close(all[i].done)
			if err := p.run(own); err != nil {
				failed <- err
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	for i := len(all) - 1; i >= 0; i-- {
		all[i].cancel()
		<-all[i].done
	}
	var never *childError
	if errors.As(err, &never) {
		// the child has written the reason to standard error
		return console.ExitStatus(never.exitCode())
	}
	return err
}
