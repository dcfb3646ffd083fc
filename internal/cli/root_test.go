package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/internal/console"
)

// commandTree returns all commands but the root.
func commandTree() []*cobra.Command {
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			all = append(all, sub)
			walk(sub)
		}
	}
	walk(newRoot(newApp(&console.Invocation{})))
	return all
}

// words returns the words of a command, without the program's name.
func words(c *cobra.Command) []string { return strings.Fields(c.CommandPath())[1:] }

// TestHelp: every command has a help page, and the overview has every command that is not hidden.
func TestHelp(t *testing.T) {
	c := newCLI(t, nil)
	overview, _, code := c.run(t, "", "help")
	if code != 0 {
		t.Errorf("help exits with %d", code)
	}
	for _, cmd := range commandTree() {
		out, errs, code := c.run(t, "", append(words(cmd), "--help")...)
		if code != 0 || errs != "" || !strings.HasPrefix(out, "usage: "+cmd.CommandPath()) ||
			!strings.Contains(out, cmd.Short) {
			t.Errorf("%s --help: %d, %q, %q", cmd.CommandPath(), code, errs, out)
		}
		if again, _, _ := c.run(t, "", append([]string{"help"}, words(cmd)...)...); again != out {
			t.Errorf("help %q differs from --help:\n%s\n%s", words(cmd), again, out)
		}
		if cmd.Parent().HasParent() || cmd.Hidden {
			continue
		}
		if !strings.Contains(overview, "  "+cmd.Name()+" ") ||
			!strings.Contains(overview, cmd.Short) {
			t.Errorf("the overview lacks %s", cmd.Name())
		}
	}
	for _, args := range [][]string{{}, {"session"}, {"config"}, {"cluster"}} {
		if _, _, code := c.run(t, "", args...); code != usageExit {
			t.Errorf("%q without a command: %d", args, code)
		}
	}
}

// TestEveryCommandIsDescribed: every visible command has a short text and an example, every command
// of the overview is in a group, and every flag has a text.
func TestEveryCommandIsDescribed(t *testing.T) {
	for _, c := range commandTree() {
		if c.Short == "" || c.Example == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s has no short text or no example, or the text ends with a dot",
				c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example %q is not indented", c.CommandPath(), line)
			}
		}
		if !c.Hidden && !c.Parent().HasParent() && !c.Root().ContainsGroup(c.GroupID) {
			t.Errorf("%s is in no group", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: the flag --%s has no text", c.CommandPath(), f.Name)
			}
		})
	}
}

// TestUsageErrors: an error in the command line names the flag or the argument, and has exit code 2.
func TestUsageErrors(t *testing.T) {
	c := newCLI(t, nil)
	for _, x := range []struct{ args, want string }{
		{"session get", "SESSION is missing"},
		{"session get s_1 s_2", `the argument "s_2" is unexpected`},
		{"session lst", `no command "lst"; did you mean`},
		{"sesion", `no command "sesion"; did you mean session`},
		{"session", "create, "},
		{"session list --colour", "--colour"},
		{"session list --output xml", "--output"},
		{"fork -n many s_1", "--count"},
		{"fork -n 0 s_1", "-n"},
		{"session create --idle-pause soon", "--idle-pause"},
		{"session create --memory much", "--memory"},
		{"logs s_1", "CHANNEL"},
		{"exec s_1", "COMMAND"},
		{"exec s_1 --", "COMMAND"},
		{"exec -d -i s_1 ls", "-d or -i"},
		{"run", "FILE"},
		{"cp a", "SESSION:PATH"},
		{"volume release data", "--token"},
		{"attach --tail 0 s_1", "--tail"},
		{"logs --tail=-1 s_1 k1", "--tail"},
		{"completion powershell", "SHELL"},
		{"help nothing", "nothing"},
		{"config nothing", "nothing"},
		{"version more", `"more"`},
	} {
		_, errs, code := c.run(t, "", strings.Fields(x.args)...)
		if code != usageExit || !strings.Contains(errs, x.want) ||
			!strings.HasPrefix(errs, "sandgate") {
			t.Errorf("%s: %d, %q, want %q", x.args, code, errs, x.want)
		}
	}
}
