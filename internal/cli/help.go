package cli

import (
	"flag"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/internal/console"
)

func (a *app) overview() {
	fmt.Fprint(a.Out, "Sandgate runs code in sandboxes and streams what it does.\n\nusage: sandgate COMMAND [FLAGS] [ARGUMENTS]\n\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(a.Out, "  %-10s %s\n", c.name, c.short)
		}
	}
	fmt.Fprint(a.Out, `
sandgate COMMAND --help tells more of each. The client's commands find the
server by --url, by SANDGATE_URL and SANDGATE_TOKEN, or by the profile that
serve has written to ~/.config/sandgate/client.yaml.

Exit codes: a program's own status (128+n after signal n); 2 for a command line
that cannot be understood; 200 and up for errors of Sandgate, one for each kind.
`)
}

func (a *app) help(c command, set *flag.FlagSet) {
	line := "usage: sandgate " + c.name
	flags := 0
	set.VisitAll(func(*flag.Flag) { flags++ })
	if flags > 0 {
		line += " [FLAGS]"
	}
	if c.args != "" {
		line += " " + c.args
	}
	fmt.Fprintf(a.Out, "%s\n\n%s\n", line, c.short)
	if c.long != "" {
		fmt.Fprintf(a.Out, "\n%s\n", strings.TrimSpace(c.long))
	}
	if flags == 0 {
		return
	}
	fmt.Fprint(a.Out, "\nFlags:\n")
	set.VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		head := "--" + f.Name
		if len(f.Name) == 1 {
			head = "-" + f.Name
		}
		if name != "" && name != "switch" {
			head += " " + strings.ToUpper(name)
		}
		fmt.Fprintf(a.Out, "  %s\n", head)
		text = strings.TrimSpace(text)
		if text != "" {
			text = strings.ToUpper(text[:1]) + text[1:]
		}
		for _, l := range console.Wrap(text+defaultOf(f), 72) {
			fmt.Fprintf(a.Out, "        %s\n", l)
		}
	})
}

func defaultOf(f *flag.Flag) string {
	if f.DefValue == "" || f.DefValue == "false" || f.DefValue == "0" {
		return ""
	}
	return " Default " + f.DefValue + "."
}
