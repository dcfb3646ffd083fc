package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

func doctorCommand() command {
	return command{
		name: "doctor", short: "Look at this machine and the server, and say how to mend what is wrong",
		long: `
Exits with 218 when something fails. Without root it looks at what it can and
says what it could not.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			flags := config.AddFlags(set)
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			cfg, err := config.Load(flags, a.Env)
			if err != nil {
				return err
			}
			failed := 0
			d := &admin.Doctor{
				Config:  cfg,
				Connect: func() (*client.Client, error) { return conn.client(a) },
				Report: func(findings ...gvisor.Finding) {
					for _, f := range findings {
						a.printFinding(f)
						if f.Status == gvisor.Fail {
							failed++
						}
					}
				},
			}
			d.Run(ctx)
			if failed > 0 {
				fmt.Fprintf(a.Out, "\n%d of these keep Sandgate from working.\n", failed)
				return console.ExitStatus(fault.Host.Row().Exit)
			}
			fmt.Fprintln(a.Out, "\nNothing is in the way.")
			return nil
		},
	}
}

// printFinding prints one finding, with the remedy below it unless all is well.
func (a *app) printFinding(f gvisor.Finding) {
	mark := string(f.Status)
	if a.Colour(a.Out) {
		colours := map[gvisor.Status]string{gvisor.OK: "32", gvisor.Warn: "33", gvisor.Fail: "31", admin.Skipped: "36"}
		mark = "\x1b[" + colours[f.Status] + "m" + mark + "\x1b[0m" + strings.Repeat(" ", 4-len(f.Status))
	}
	fmt.Fprintf(a.Out, "%-4s  %-18s  %s\n", mark, f.Name, f.What)
	if f.Mend == "" || f.Status == gvisor.OK {
		return
	}
	for _, l := range console.Wrap("mend: "+f.Mend, 90) {
		fmt.Fprintf(a.Out, "      %-18s  %s\n", "", l)
	}
}
