package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/config"
)

func configCommand(a *app) *cobra.Command {
	reference := &cobra.Command{
		Use: "reference", Short: "Print the reference page of all settings, docs/configuration.md",
		Example: "  sandgate config reference",
		RunE:    func(*cobra.Command, []string) error { return config.Reference(a.Out) },
	}
	show := &cobra.Command{
		Use: "show", Short: "Print the current settings, as a configuration file",
		Long: `
They are merged from the file, the environment and the flags.`,
		Example: "  sandgate config show --config test.yaml",
	}
	return group("config", "Print the settings: the reference page, or the current values", "",
		`  sandgate config show
  sandgate config reference`, reference,
		a.withConfig(show, func(_ context.Context, cfg *config.Config,
			_ []string,
		) error {
			return config.Show(a.Out, cfg)
		}))
}
