package cli

import (
	"context"
	"flag"

	"github.com/sandgate/sandgate/internal/config"
)

func configCommand() command {
	return command{
		name: "config", args: "reference | show", short: "Print the settings: their reference page, or those in force",
		long: "reference  prints docs/configuration.md, which is made from the program.\n" +
			"show       prints the settings that file, environment and flags add up to, as a\n" +
			"           file that can be used. Flags come after the word: config show --listen …",
		run: func(_ context.Context, a *app, set *flag.FlagSet, args []string) error {
			if len(args) > 0 && args[0] == "reference" {
				if err := parse(set, args[1:], 0, 0); err != nil {
					return err
				}
				return config.Reference(a.Out)
			}
			flags := config.AddFlags(set)
			if len(args) > 0 && args[0] == "show" {
				if err := parse(set, args[1:], 0, 0); err != nil {
					return err
				}
				c, err := config.Load(flags, a.Env)
				if err != nil {
					return err
				}
				return config.Show(a.Out, c)
			}
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			return usagef("reference or show?")
		},
	}
}
