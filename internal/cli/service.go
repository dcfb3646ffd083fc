package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/services"
)

func serviceCommand(a *app) *cobra.Command {
	return services.Command(services.Program{
		Out: func() io.Writer { return a.Out },
		Client: func(c *cobra.Command, run services.Run) *cobra.Command {
			return a.withClient(c, run)
		},
		Usage: usagef,
		List:  a.lister,
		Logs: func(ctx context.Context, c *wire.Client, session, channel string, follow bool,
			tail int64,
		) error {
			return runLogs(ctx, a, c, session, channel, follow, tail)
		},
		Verbatim: passArguments,
	})
}
