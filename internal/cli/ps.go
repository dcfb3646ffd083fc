package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

func psCommand() command {
	return command{
		name: "ps", args: "[SESSION...]", short: "List the kernels, terminals and processes of your sessions",
		long: `
With -a it lists all that runs in them, as the system's ps does.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			every := set.Bool("a", false, "List every process in them.")
			if err := parse(set, args, 0, -1); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			var all []protocol.Session
			if set.NArg() == 0 {
				if all, err = c.Sessions(ctx); err != nil {
					return err
				}
			}
			for _, id := range set.Args() {
				s, err := c.Session(ctx, id)
				if err != nil {
					return err
				}
				all = append(all, s)
			}
			if *every {
				return a.listProcesses(ctx, c, all)
			}
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tCHANNEL\tKIND\tSTATE\tOUTPUT\tWHAT")
			for _, s := range all {
				for _, ch := range s.Channels {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, ch.ID, ch.Kind, stateOf(ch), sizeOf(ch.End), whatOf(ch))
				}
			}
			return w.Flush()
		},
	}
}

// stateOf is a channel's state with how it ended.
func stateOf(ch protocol.Channel) string {
	switch {
	case ch.Exit != nil && ch.Exit.Signal != "":
		return ch.State + " (" + ch.Exit.Signal + ")"
	case ch.Exit != nil && ch.Exit.Code < 0:
		return ch.State + " (" + ch.Exit.Reason + ")"
	case ch.Exit != nil:
		return fmt.Sprintf("%s (%d)", ch.State, ch.Exit.Code)
	case ch.Queued > 0:
		return fmt.Sprintf("%s (%d wait)", ch.State, ch.Queued)
	}
	return ch.State
}

// whatOf is what runs in a channel.
func whatOf(ch protocol.Channel) string {
	what := strings.Join(ch.Argv, " ")
	if what == "" {
		what = ch.Language
	}
	if ch.Title != "" {
		what += " (" + ch.Title + ")"
	}
	if r := []rune(printable(what)); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return printable(what)
}

// listProcesses prints all that runs in sessions.
func (a *app) listProcesses(ctx context.Context, c *client.Client, sessions []protocol.Session) error {
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tPID\tPPID\tUSER\tSTATE\tCPU\tMEMORY\tCHANNEL\tCOMMAND")
	for _, s := range sessions {
		all, err := c.Processes(ctx, s.ID)
		if err != nil {
			return err
		}
		for _, p := range all {
			channel := p.Channel
			if channel == "" {
				channel = "-"
			}
			cpu := (time.Duration(p.CPUMS) * time.Millisecond).Round(10 * time.Millisecond)
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, p.PID, p.PPID, printable(p.User), p.State, cpu, sizeOf(p.Memory), channel, printable(p.Command))
		}
	}
	return w.Flush()
}
