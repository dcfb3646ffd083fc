package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

func killCommand() command {
	return command{
		name: "kill", args: "SESSION PID|CHANNEL...", short: "Send a signal to processes in a session",
		long: `
A CHANNEL is one that ps lists, such as p3: the signal goes to its first
process. A PID is one that ps -a lists.

  sandgate kill s_abc p3
  sandgate kill -s SIGHUP s_abc 42`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			name := set.String("s", "SIGTERM", "The `signal`, as SIGTERM or TERM.")
			if err := parse(set, args, 2, -1); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			signal := strings.ToUpper(*name)
			if !strings.HasPrefix(signal, "SIG") {
				signal = "SIG" + signal
			}
			session := set.Arg(0)
			return a.eachOf(set.Args()[1:], func(what string) error {
				pid, err := strconv.Atoi(what)
				if err != nil {
					if pid, err = firstOf(ctx, c, session, what); err != nil {
						return err
					}
				}
				return c.SignalProcess(ctx, session, pid, signal)
			})
		},
	}
}

// firstOf is the first process of a channel: the one that no other of the
// channel's has started.
func firstOf(ctx context.Context, c *client.Client, session, channel string) (int, error) {
	all, err := c.Processes(ctx, session)
	if err != nil {
		return 0, err
	}
	own := slices.DeleteFunc(all, func(p protocol.Process) bool { return p.Channel != channel })
	for _, p := range own {
		if !slices.ContainsFunc(own, func(o protocol.Process) bool { return o.PID == p.PPID }) {
			return p.PID, nil
		}
	}
	return 0, &fault.Error{Kind: fault.NotFound, Op: "kill", Message: fmt.Sprintf("nothing runs in a channel %s", printable(channel))}
}
