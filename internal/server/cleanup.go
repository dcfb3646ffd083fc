package server

import (
	"context"
	"errors"
	"time"
)

// closeLimit is how long a part of a node may take to close, such as all its sandboxes.
const closeLimit = 50 * time.Second

// cleanup is a stack of functions that close what was opened.
type cleanup struct{ all []func(context.Context) error }

// add puts a function on the stack.
func (c *cleanup) add(f func(context.Context) error) { c.all = append(c.all, f) }

// do puts a function that cannot fail on the stack.
func (c *cleanup) do(f func()) {
	c.add(func(context.Context) error { f(); return nil })
}

// run calls all functions, the last one first. Each has closeLimit.
func (c *cleanup) run() error {
	var err error
	for i := len(c.all) - 1; i >= 0; i-- {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		err = errors.Join(err, c.all[i](ctx))
		cancel()
	}
	return err
}
