// Command sandgate is Sandgate: the server (serve, node, gateway), its clients
// on the command line (run, repl, shell, attach, ps, logs, record, sessions, rm,
// ls, cp, watch, exec, port, status, token, key, tenant) and what helps an operator (doctor, config, version).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/sandgate/sandgate/fault"
)

// version is set by the build.
var version = "dev"

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ()}
	os.Exit(a.main(context.Background(), os.Args[1:]))
}

// app is one call of the program with the streams and the environment it has.
type app struct {
	in  *os.File
	out io.Writer
	err io.Writer
	env []string
}

// command is one word of the command line.
type command struct {
	name  string
	args  string // what follows the flags
	short string // one line
	long  string // the rest of the help text
	// hidden keeps it out of the overview.
	hidden bool
	// run gets a flag set that it has to parse args with.
	run func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error
}

func commands() []command {
	return []command{
		serveCommand(), runCommand(), replCommand(), shellCommand(), attachCommand(), psCommand(), logsCommand(), recordCommand(),
		sessionsCommand(), pauseCommand(), hibernateCommand(), resumeCommand(), forkCommand(), snapshotCommand(), templateCommand(), volumeCommand(), rmCommand(), lsCommand(), cpCommand(), watchCommand(), execCommand(), portCommand(), statusCommand(),
		mvCommand(), mkdirCommand(), killCommand(),
		tokenCommand(), keyCommand(), tenantCommand(), backupCommand(), restoreCommand(), checkCommand(), usageCommand(), reloadCommand(), doctorCommand(), configCommand(), nodeCommand(), clusterCommand(), gatewayCommand(), versionCommand(),
	}
}

// exitStatus ends the program with a status and without a message: a user's
// program has said all there is to say.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprint("exit status ", int(e)) }

// usage is the exit code for a command line that cannot be understood.
const usageExit = 2

func (a *app) main(ctx context.Context, args []string) int {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		if len(args) > 1 {
			for _, c := range commands() {
				if c.name == args[1] {
					return a.run(ctx, c, []string{"--help"})
				}
			}
		}
		a.overview()
		if len(args) == 0 {
			return usageExit
		}
		return 0
	}
	name := args[0]
	if name == "--version" || name == "-version" {
		name = "version"
	}
	for _, c := range commands() {
		if c.name == name {
			return a.run(ctx, c, args[1:])
		}
	}
	fmt.Fprintf(a.err, "sandgate: there is no command %q; sandgate help lists them\n", name)
	return usageExit
}

func (a *app) run(ctx context.Context, c command, args []string) int {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	err := c.run(ctx, a, set, args)
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, flag.ErrHelp):
		a.help(c, set)
		return 0
	}
	var parse *parseError
	if errors.As(err, &parse) {
		fmt.Fprintf(a.err, "sandgate %s: %v; sandgate %s --help tells more\n", c.name, parse.error, c.name)
		return usageExit
	}
	return a.fail(err)
}

// parseError marks an error in the command line itself.
type parseError struct{ error }

func (e *parseError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return &parseError{fmt.Errorf(format, args...)} }

// parse parses the flags and checks the number of what follows them; most
// below 0 means any number.
func parse(set *flag.FlagSet, args []string, least, most int) error {
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return &parseError{err}
	}
	switch n := set.NArg(); {
	case n < least:
		return usagef("%d more argument(s) needed", least-n)
	case most >= 0 && n > most:
		return usagef("there is no use for %q", set.Arg(most))
	}
	return nil
}

// fail prints an error for people and returns its exit code.
func (a *app) fail(err error) int {
	kind := fault.KindOf(err)
	fmt.Fprintf(a.err, "sandgate: %s (%s)\n", message(err), kind)
	advice := kind.Row().Advice
	var known *fault.Error
	if errors.As(err, &known) && known.RetryAfter > 0 {
		advice += fmt.Sprintf(" Try again in %d s.", known.RetryAfter)
	}
	fmt.Fprintf(a.err, "  %s\n", advice)
	return kind.Row().Exit
}

// message is what went wrong without the names of our packages: the outermost
// message, else the cause's text.
func message(err error) string {
	var known *fault.Error
	if !errors.As(err, &known) {
		return err.Error()
	}
	switch {
	case known.Message != "" && known.Field != "" && !strings.Contains(known.Message, known.Field):
		return known.Field + ": " + known.Message
	case known.Message != "":
		return known.Message
	case known.Err != nil:
		return message(known.Err)
	}
	return known.Error()
}

func (a *app) overview() {
	fmt.Fprint(a.out, "Sandgate runs code in sandboxes and streams what it does.\n\nusage: sandgate COMMAND [FLAGS] [ARGUMENTS]\n\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(a.out, "  %-10s %s\n", c.name, c.short)
		}
	}
	fmt.Fprint(a.out, `
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
	fmt.Fprintf(a.out, "%s\n\n%s\n", line, c.short)
	if c.long != "" {
		fmt.Fprintf(a.out, "\n%s\n", strings.TrimSpace(c.long))
	}
	if flags == 0 {
		return
	}
	fmt.Fprint(a.out, "\nFlags:\n")
	set.VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		head := "--" + f.Name
		if len(f.Name) == 1 {
			head = "-" + f.Name
		}
		if name != "" && name != "switch" {
			head += " " + strings.ToUpper(name)
		}
		fmt.Fprintf(a.out, "  %s\n", head)
		text = strings.TrimSpace(text)
		if text != "" {
			text = strings.ToUpper(text[:1]) + text[1:]
		}
		for _, l := range lines(text+defaultOf(f), 72) {
			fmt.Fprintf(a.out, "        %s\n", l)
		}
	})
}

func defaultOf(f *flag.Flag) string {
	if f.DefValue == "" || f.DefValue == "false" || f.DefValue == "0" {
		return ""
	}
	return " Default " + f.DefValue + "."
}

// lines breaks text at spaces.
func lines(text string, width int) []string {
	var all []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			all = append(all, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(all, line)
}

// getenv returns a variable of the call's environment.
func (a *app) getenv(name string) string {
	for i := len(a.env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(a.env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// terminal reports whether w is one.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour reports whether w may be written to in colour.
func (a *app) colour(w any) bool {
	return terminal(w) && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

func versionCommand() command {
	return command{name: "version", short: "Print the version", run: func(_ context.Context, a *app, set *flag.FlagSet, args []string) error {
		if err := parse(set, args, 0, 0); err != nil {
			return err
		}
		fmt.Fprintf(a.out, "sandgate %s\n", version)
		return nil
	}}
}
