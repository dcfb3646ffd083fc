package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/sandgate/sandgate/client"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/console"
)

// maxForwards is how many connections one forward carries at once.
const maxForwards = 128

// forward is one port that is forwarded.
type forward struct {
	a       *app
	c       *client.Client
	session string
	port    int
	local   string
}

// forwardAll listens for all of them, and then serves until ctx ends.
func forwardAll(ctx context.Context, a *app, all []*forward) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listeners := make([]net.Listener, len(all))
	for i, f := range all {
		ln, err := net.Listen("tcp", f.local)
		if err != nil {
			return &fault.Error{Kind: fault.Host, Op: "port", Message: "cannot listen on " + f.local, Err: err}
		}
		defer func() { _ = ln.Close() }()
		listeners[i] = ln
	}
	var wg sync.WaitGroup
	for i, f := range all {
		fmt.Fprintf(a.Err, "%s → port %d of %s\n", listeners[i].Addr(), f.port, f.session)
		wg.Go(func() { f.serve(ctx, listeners[i]) })
	}
	wg.Wait()
	return nil
}

func (f *forward) serve(ctx context.Context, ln net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	slots := make(chan struct{}, maxForwards)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		here, err := ln.Accept()
		if err != nil {
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = here.Close()
			fmt.Fprintf(f.a.Err, "sandgate: port %d: %d connections are open, which is the most there may be\n", f.port, maxForwards)
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f.carry(ctx, here); err != nil && ctx.Err() == nil {
				fmt.Fprintf(f.a.Err, "sandgate: port %d: %s (%s)\n", f.port, console.ErrorText(err), fault.KindOf(err))
			}
		})
	}
}

// carry connects one connection to the port, until the program has ended it or
// the one who came is gone.
func (f *forward) carry(ctx context.Context, here net.Conn) error {
	defer func() { _ = here.Close() }()
	there, err := f.c.DialPort(ctx, f.session, f.port)
	if err != nil {
		return err
	}
	defer func() { _ = there.Close() }()
	defer context.AfterFunc(ctx, func() { _ = here.Close(); _ = there.Close() })()
	go func() {
		// An end of what is sent here cannot be passed on alone: the program's
		// answer may still come.
		if _, err := io.Copy(there, here); err != nil {
			_ = there.Close()
		}
	}()
	_, _ = io.Copy(here, there)
	return nil
}
