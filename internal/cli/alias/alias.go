// Package alias translates command lines of earlier versions to the current ones.
package alias

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Verbatim is the annotation of a command whose arguments after the first belong to a program: flags
// end there.
const Verbatim = "sandgate.verbatim"

// Names are the spellings of earlier versions, by their first words. They work for one release
// after a spelling has changed.
func Names() map[string][]string {
	return map[string][]string{
		"--version": {"version"}, "-version": {"version"},
		"--help": {"help"}, "-help": {"help"}, "-h": {"help"},
		"sessions": {"session"}, "session ls": {"session", "list"},
		"session inspect": {"session", "get", "--output=json"},
		"session rm":      {"rm"},
		"pause":           {"session", "pause"}, "hibernate": {"session", "hibernate"},
		"resume":         {"session", "resume"},
		"template build": {"template", "create"}, "template ls": {"template", "list"},
		"template inspect": {"template", "get", "--output=json"},
		"template rm":      {"template", "delete"},
		"snapshot ls":      {"snapshot", "list"}, "snapshot rm": {"snapshot", "delete"},
		"volume ls": {"volume", "list"}, "volume inspect": {"volume", "get", "--output=json"},
		"volume rm": {"volume", "delete"},
		"key ls":    {"key", "list"}, "tenant ls": {"tenant", "list"},
	}
}

// defaultVerbs are the verbs that earlier versions assumed for some commands.
func defaultVerbs() map[string]string {
	return map[string]string{"sessions": "list", "node": "start", "gateway": "start"}
}

// Canonical replaces the spellings of earlier versions: aliases of commands, flags before the verb,
// long flags with one dash and short ones with two.
func Canonical(root *cobra.Command, args []string) []string {
	if len(args) == 0 || strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return args
	}
	if args[0] == "help" && len(args) > 1 {
		c := resolve(root, args[1:])
		return append(append([]string{"help"}, c.path...), c.args...)
	}
	c := resolve(root, args)
	if c.verb != "" && !slices.ContainsFunc(c.args, isHelp) {
		c.enter(c.verb)
	}
	return append(c.path, canonicalFlags(c.cmd, c.args)...)
}

// call is a command with the words that lead to it and the arguments that follow.
type call struct {
	cmd  *cobra.Command
	path []string
	args []string
	// verb is the verb that an earlier version assumed without it being given.
	verb string
}

// resolve finds the command that args name. args must not be empty.
func resolve(root *cobra.Command, args []string) *call {
	first := args[0]
	c := &call{cmd: root, args: args[1:]}
	if !c.enter(first) {
		return &call{cmd: root, args: args}
	}
	if !c.cmd.HasSubCommands() {
		return c
	}
	at := firstWord(c.cmd, c.args)
	if at == len(c.args) {
		c.verb = defaultVerbs()[first]
		return c
	}
	word := c.args[at]
	before := c.args
	c.args = slices.Concat(c.args[:at], c.args[at+1:])
	if !c.enter(word) {
		c.args = before
	}
	return c
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

// enter continues with the command that word names now, or named in an earlier version. It reports
// whether there is one.
func (c *call) enter(word string) bool {
	old := Names()[strings.Join(append(slices.Clone(c.path), word), " ")]
	if old == nil {
		next := Child(c.cmd, word)
		if next != nil {
			c.cmd, c.path = next, append(c.path, word)
		}
		return next != nil
	}
	c.cmd, c.path = c.cmd.Root(), nil
	for _, w := range old {
		if next := Child(c.cmd, w); next != nil {
			c.cmd, c.path = next, append(c.path, w)
		} else {
			c.args = append([]string{w}, c.args...)
		}
	}
	return true
}

// firstWord returns the index of the first of args that is neither a flag nor the value of one, or
// len(args).
func firstWord(cmd *cobra.Command, args []string) int {
	for i := 0; i < len(args); i++ {
		s := args[i]
		if len(s) < 2 || s[0] != '-' {
			return i
		}
		if takesNext(cmd, s) {
			i++
		}
	}
	return len(args)
}

// takesNext reports whether a flag's value is the next argument. A command with commands below it
// has no flags of its own.
func takesNext(cmd *cobra.Command, s string) bool {
	name, _, hasValue := strings.Cut(strings.TrimLeft(s, "-"), "=")
	if hasValue {
		return false
	}
	for _, c := range append(cmd.Commands(), cmd) {
		if f := lookup(c, name); f != nil {
			return f.NoOptDefVal == ""
		}
	}
	return false
}

// lookup finds a flag by its long or its short name.
func lookup(c *cobra.Command, name string) *pflag.Flag {
	if f := c.Flags().Lookup(name); f != nil || len(name) != 1 {
		return f
	}
	return c.Flags().ShorthandLookup(name)
}

// canonicalFlags replaces earlier spellings of cmd's flags by the current ones.
func canonicalFlags(cmd *cobra.Command, args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		s := args[i]
		switch {
		case s == "--" || cmd.Annotations[Verbatim] != "" && (len(s) < 2 || s[0] != '-'):
			return append(out, args[i:]...)
		case len(s) < 2 || s[0] != '-':
			out = append(out, s)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimLeft(s, "-"), "=")
		two := strings.HasPrefix(s, "--")
		switch {
		case !two && len(name) > 1 && (name == "help" || cmd.Flags().Lookup(name) != nil):
			s = "-" + s
		case two && len(name) == 1 && lookup(cmd, name) != nil:
			s = s[1:]
		case !two && len(name) > 1:
			// Several short flags in one argument. Only the last can have its value in the next
			// argument.
			last := name[len(name)-1:]
			if !strings.Contains(s, "=") && onlySwitches(cmd, name[:len(name)-1]) &&
				takesNext(cmd, "-"+last) && i+1 < len(args) {
				out = append(out, s, args[i+1])
				i++
				continue
			}
			out = append(out, s)
			continue
		}
		out = append(out, s)
		if takesNext(cmd, s) && i+1 < len(args) {
			i++
			out = append(out, args[i])
		}
	}
	return out
}

// onlySwitches reports whether all short flags in names are without a value.
func onlySwitches(cmd *cobra.Command, names string) bool {
	for _, r := range names {
		if f := cmd.Flags().ShorthandLookup(string(r)); f == nil || f.NoOptDefVal == "" {
			return false
		}
	}
	return true
}

// Child returns the command below c with a name, or nil.
func Child(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}
