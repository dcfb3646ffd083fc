package cli

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/sandgate/sandgate/client"
)

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
					fmt.Fprintln(a.Out, u.URL)
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
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	if len(ports) > 0 {
		fmt.Fprintln(w, "PORT\tADDRESS")
	}
	for _, p := range ports {
		fmt.Fprintf(w, "%d\t%s\n", p.Port, p.Address)
	}
	return w.Flush()
}
