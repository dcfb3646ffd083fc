package cli

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/cli/output"
)

// outputFlag adds --output, the format of a command's output.
func outputFlag(c *cobra.Command, standard output.Format) *output.Format {
	f := standard
	c.Flags().VarP(&f, "output", "o",
		"print a table, a wide table with more columns, or JSON: `table|wide|json`")
	// It fails only for a flag that is unknown or has a function already.
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(),
		cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// listOptions are the flags of a command that lists.
type listOptions struct {
	format *output.Format
	quiet  *bool
}

func listFlags(c *cobra.Command) listOptions {
	return listOptions{
		format: outputFlag(c, output.Table),
		quiet:  c.Flags().BoolP("quiet", "q", false, "print only the ids or names"),
	}
}

// lister adds the flags of lists. The result returns the printer that they ask for.
func (a *app) lister(c *cobra.Command) func() output.Printer {
	o := listFlags(c)
	return func() output.Printer { return o.printer(a) }
}

func (o listOptions) printer(a *app) output.Printer {
	return output.Printer{W: a.Out, Format: *o.format, Quiet: *o.quiet}
}
