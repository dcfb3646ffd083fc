package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/sandgate/sandgate/internal/console"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write a manual page for every command", Hidden: true,
		Example: "  sandgate man /usr/local/share/man/man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return console.FileError(err)
			}
			header := &doc.GenManHeader{
				Title: "SANDGATE", Section: "1", Source: "Sandgate",
				Manual: "Sandgate",
			}
			if err := doc.GenManTree(cmd.Root(), header, args[0]); err != nil {
				return console.FileError(err)
			}
			return nil
		},
	}
}
