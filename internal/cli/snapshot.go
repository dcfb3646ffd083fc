package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

func snapshotCommand() command {
	return command{
		name: "snapshot", args: "create SESSION | start SNAPSHOT | ls | rm SNAPSHOT...", short: "Keep sessions as they are, for others to go on from",
		long: `
  sandgate snapshot create --name clean SESSION   keeps it as it is now; it goes on
  sandgate snapshot start clean                   makes a session that goes on from it
  sandgate snapshot ls                            lists what is kept
  sandgate snapshot rm clean                      removes it

SNAPSHOT is an id or a name.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			name := set.String("name", "", "Name of the snapshot (create) or of the session (start).")
			expires := set.Duration("expires", 0, "Remove it after this time, such as 48h; 0 means never (create).")
			quiet := set.Bool("q", false, "Print the ids alone (ls).")
			// Flags stand before and behind the verb.
			if err := set.Parse(args); err != nil {
				return &parseError{err}
			}
			verb := set.Arg(0)
			least, most, known := map[string]int{"create": 1, "start": 1, "rm": 1}[verb], map[string]int{"create": 1, "start": 1, "rm": -1}[verb], slices.Contains([]string{"create", "start", "ls", "rm"}, verb)
			if !known {
				return usagef("say create, start, ls or rm")
			}
			if err := parse(set, set.Args()[1:], least, most); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			switch verb {
			case "create":
				s, err := c.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: set.Arg(0), Name: *name, ExpiresSeconds: int64(*expires / time.Second)})
				if err == nil {
					fmt.Fprintln(a.Out, s.ID)
				}
				return err
			case "start":
				s, err := c.CreateSession(ctx, protocol.SessionCreate{Snapshot: set.Arg(0), Name: *name})
				if err == nil {
					fmt.Fprintln(a.Out, s.ID)
				}
				return err
			case "rm":
				return a.removeSnapshots(ctx, c, set.Args())
			}
			return a.listSnapshots(ctx, c, *quiet)
		},
	}
}

func (a *app) removeSnapshots(ctx context.Context, c *client.Client, refs []string) error {
	var first error
	for _, ref := range refs {
		switch err := c.DeleteSnapshot(ctx, ref); {
		case err != nil && first == nil:
			first = err
		case err != nil:
			a.fail(err)
		}
	}
	return first
}

func (a *app) listSnapshots(ctx context.Context, c *client.Client, quiet bool) error {
	all, err := c.Snapshots(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	if !quiet && len(all) > 0 {
		fmt.Fprintln(w, "ID\tNAME\tLANGUAGE\tAGE\tSIZE\tEXPIRES\tSESSION")
	}
	for _, s := range all {
		if quiet {
			fmt.Fprintln(w, s.ID)
			continue
		}
		expires := "never"
		if s.ExpiresMS != 0 {
			expires = "in " + since(2*time.Now().UnixMilli()-s.ExpiresMS)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, printable(s.Name), s.Language, since(s.CreatedMS), config.Size(s.Bytes>>20<<20), expires, s.Session)
	}
	return w.Flush()
}
