package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
)

// maxForwards is how many connections one forward carries at once.
const maxForwards = 128

func portCommand() command {
	return command{
		name: "port", args: "SESSION [PORT[:LOCAL]]...", short: "Forward a session's TCP ports to this machine, or list them",
		long: `
Each PORT of the session can then be reached as 127.0.0.1:LOCAL, until the
command is interrupted. LOCAL is the same number unless given, 0 is any that is
free. Without a PORT it lists what programs in the session listen on.

  sandgate port s_abc 8000
  sandgate port s_abc 5432:15432 8000:0
  sandgate port --url-only s_abc 8000     an address for a browser, good once`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			address := set.String("address", "127.0.0.1", "The `address` of this machine to listen on.")
			only := set.Bool("url-only", false, "Print an address that opens the port in a browser, once and within 30 s, and forward nothing.")
			if err := parse(set, args, 1, -1); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			session := set.Arg(0)
			if set.NArg() == 1 {
				return listPorts(ctx, a, c, session)
			}
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var all []*forward
			for _, arg := range set.Args()[1:] {
				port, local, err := portArg(arg)
				if err != nil {
					return err
				}
				if *only {
					u, err := c.OpenPort(ctx, session, port, false)
					if err != nil {
						return err
					}
					fmt.Fprintln(a.out, u.URL)
					continue
				}
				all = append(all, &forward{a: a, c: c, session: session, port: port, local: net.JoinHostPort(*address, strconv.Itoa(local))})
			}
			if *only {
				return nil
			}
			// Is the session there, and may we?
			if _, err := c.Ports(ctx, session); err != nil {
				return err
			}
			return forwardAll(ctx, a, all)
		},
	}
}

// portArg reads PORT or PORT:LOCAL.
func portArg(s string) (port, local int, err error) {
	first, second, two := strings.Cut(s, ":")
	p, err := strconv.ParseUint(first, 10, 16)
	l := p
	if err == nil && two {
		l, err = strconv.ParseUint(second, 10, 16)
	}
	if err != nil || p == 0 {
		return 0, 0, usagef("%q is no PORT or PORT:LOCAL", s)
	}
	return int(p), int(l), nil
}

func listPorts(ctx context.Context, a *app, c *client.Client, session string) error {
	ports, err := c.Ports(ctx, session)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	if len(ports) > 0 {
		fmt.Fprintln(w, "PORT\tADDRESS")
	}
	for _, p := range ports {
		fmt.Fprintf(w, "%d\t%s\n", p.Port, p.Address)
	}
	return w.Flush()
}

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
		fmt.Fprintf(a.err, "%s → port %d of %s\n", listeners[i].Addr(), f.port, f.session)
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
			fmt.Fprintf(f.a.err, "sandgate: port %d: %d connections are open, which is the most there may be\n", f.port, maxForwards)
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f.carry(ctx, here); err != nil && ctx.Err() == nil {
				fmt.Fprintf(f.a.err, "sandgate: port %d: %s (%s)\n", f.port, message(err), fault.KindOf(err))
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
