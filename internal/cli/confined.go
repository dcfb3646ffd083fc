package cli

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/server"
)

// confinedCommand is the child in which a node works on data of users.
func confinedCommand() *cobra.Command {
	return &cobra.Command{
		Use: "confined JOB", Short: "Do one job of the node with few rights", Hidden: true,
		Long: `
The node starts this command. It refuses to work if the node has not confined it.`,
		Example: "  sandgate confined image.make",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if code := server.Confined(args[0]); code != 0 {
				return console.ExitStatus(code)
			}
			return nil
		},
	}
}
