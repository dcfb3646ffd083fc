package cli

import (
	"context"
	"flag"
	"fmt"
)

func versionCommand() command {
	return command{name: "version", short: "Print the version", run: func(_ context.Context, a *app, set *flag.FlagSet, args []string) error {
		if err := parse(set, args, 0, 0); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "sandgate %s\n", a.Version)
		return nil
	}}
}
