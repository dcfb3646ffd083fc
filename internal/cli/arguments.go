package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/cli/alias"
)

// argument is one word of a Use line after the command's name.
type argument struct {
	name             string // SESSION, SESSION:PATH, PATH, ...
	optional, repeat bool
}

// argumentsOf reads the Use line of a command: [NAME] is optional, NAME... can be given again.
func argumentsOf(cmd *cobra.Command) []argument {
	var all []argument
	for _, word := range strings.Fields(cmd.Use)[1:] {
		name, repeat := strings.CutSuffix(word, "...")
		name, optional := strings.CutPrefix(name, "[")
		if optional {
			name = strings.TrimSuffix(name, "]")
		}
		all = append(all, argument{name: name, optional: optional, repeat: repeat})
	}
	return all
}

// argumentAt returns the description of argument i, or nil if there is none.
func argumentAt(all []argument, i int) *argument {
	switch {
	case i < len(all):
		return &all[i]
	case len(all) > 0 && all[len(all)-1].repeat:
		return &all[len(all)-1]
	}
	return nil
}

// checkArguments compares the number of arguments with the command's Use line.
func checkArguments(cmd *cobra.Command, args []string) error {
	all := argumentsOf(cmd)
	for i, arg := range all {
		if i >= len(args) && !arg.optional {
			return usagef("the argument %s is missing", arg.name)
		}
	}
	for i, given := range args {
		if argumentAt(all, i) == nil {
			return usagef("the argument %q is unexpected", given)
		}
	}
	return nil
}

func passArguments(c *cobra.Command) {
	c.Annotations = map[string]string{alias.Verbatim: "true"}
	c.Flags().SetInterspersed(false)
}
