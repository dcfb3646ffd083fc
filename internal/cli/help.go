package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/internal/cli/alias"
	"github.com/sandgate/sandgate/internal/console"
)

// helpWidth is the width of a help page, in columns.
const helpWidth = 100

// help prints the help page of a command. The page of the root command is the overview.
func (a *app) help(c *cobra.Command, _ []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s", useLine(c))
	fmt.Fprintf(&b, "\n\n%s\n", c.Short)
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.Trim(c.Example, "\n"))
	}
	for _, g := range c.Groups() {
		section(&b, g.Title, c, g.ID)
	}
	section(&b, "Commands", c, "")
	if flags := c.Flags(); c.Runnable() && c.HasParent() && flags.HasAvailableFlags() &&
		!c.HasSubCommands() {
		fmt.Fprint(&b, "\nFlags:\n")
		flags.VisitAll(func(f *pflag.Flag) { describeFlag(&b, f) })
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nFor more about a command: %s COMMAND --help\n", c.CommandPath())
	}
	fmt.Fprint(a.Out, b.String())
}

// describeFlag writes a flag with its text below it.
func describeFlag(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	name, text := pflag.UnquoteUsage(f)
	head := "--" + f.Name
	if f.Shorthand != "" {
		head = "-" + f.Shorthand + ", " + head
	}
	if name != "" && f.NoOptDefVal == "" {
		head += " " + strings.ToUpper(name)
	}
	fmt.Fprintf(b, "  %s\n", head)
	// The text of a setting begins with its type.
	text = strings.TrimSpace(strings.TrimPrefix(text, name+"  "))
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	switch f.DefValue {
	case "", "0", "false", "[]", "0s":
	default:
		text += " Default " + f.DefValue + "."
	}
	for _, l := range console.Wrap(strings.ToUpper(text[:1])+text[1:], helpWidth-8) {
		fmt.Fprintf(b, "        %s\n", l)
	}
}

// section lists the commands below c that are in a group.
func section(b *strings.Builder, title string, c *cobra.Command, id string) {
	first := true
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.GroupID != id {
			continue
		}
		if first {
			fmt.Fprintf(b, "\n%s:\n", title)
			first = false
		}
		fmt.Fprintf(b, "  %-11s %s\n", sub.Name(), sub.Short)
	}
}

// useLine returns the usage line of a command.
func useLine(c *cobra.Command) string {
	_, arguments, _ := strings.Cut(c.Use, " ")
	line := c.CommandPath()
	if c.HasParent() && c.Flags().HasAvailableFlags() && !c.HasSubCommands() {
		line += " [FLAG]..."
	}
	if c.HasSubCommands() && arguments == "" {
		arguments = "COMMAND"
	}
	return strings.TrimSpace(line + " " + arguments)
}

func helpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Print the help page of a command",
		Example: "  sandgate help session create",
		RunE: func(cmd *cobra.Command, args []string) error {
			c := cmd.Root()
			for _, name := range args {
				if err := subcommandExists(c, name); err != nil {
					return err
				}
				c = alias.Child(c, name)
			}
			c.InitDefaultHelpFlag()
			a.help(c, nil)
			return nil
		},
	}
}

func subcommandExists(c *cobra.Command, name string) error {
	if alias.Child(c, name) != nil {
		return nil
	}
	return subcommand(c, []string{name})
}
