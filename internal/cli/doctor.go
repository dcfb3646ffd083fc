package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/protocol/fault"
)

func doctorCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "Check this machine and the server, and print remedies",
		Long: `
Exits with 218 when a check fails. Without root it makes only some checks, and lists the others as
skipped.`,
		Example: "  sudo sandgate doctor",
	}
	conn := connectionFlags(c)
	return a.withConfig(c, func(ctx context.Context, cfg *config.Config, _ []string) error {
		failed := 0
		d := &admin.Doctor{
			Config:  cfg,
			Connect: func() (*wire.Client, error) { return conn.client(a) },
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
		fmt.Fprintln(a.Out, "\nNo problem keeps Sandgate from working.")
		return nil
	})
}

// printFinding prints one finding, and the remedy below it unless the status is OK.
func (a *app) printFinding(f gvisor.Finding) {
	mark := string(f.Status)
	if a.Colour(a.Out) {
		colours := map[gvisor.Status]string{
			gvisor.OK: "32", gvisor.Warn: "33", gvisor.Fail: "31",
			admin.Skipped: "36",
		}
		mark = "\x1b[" + colours[f.Status] + "m" + mark + "\x1b[0m" +
			strings.Repeat(" ", 4-len(f.Status))
	}
	fmt.Fprintf(a.Out, "%-4s  %-18s  %s\n", mark, f.Name, f.What)
	if f.Repair == "" || f.Status == gvisor.OK {
		return
	}
	for _, l := range console.Wrap("repair: "+f.Repair, 90) {
		fmt.Fprintf(a.Out, "      %-18s  %s\n", "", l)
	}
}
