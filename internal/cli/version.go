package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version",
		Example: "  sandgate version",
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(a.Out, "sandgate %s\n", a.Version)
			return nil
		},
	}
}
