package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/console"
)

// eachOf does one thing to each, and goes on after an error.
func (a *app) eachOf(all []string, do func(string) error) error {
	var first error
	for _, one := range all {
		switch err := do(one); {
		case err != nil && first == nil:
			first = err
		case err != nil:
			a.fail(err)
		}
	}
	return first
}

// Main runs the command line args and returns the exit code.
func Main(ctx context.Context, i *console.Invocation, args []string) int {
	a := &app{i}
	return a.main(ctx, args)
}

// app is one call of the program.
type app struct{ *console.Invocation }

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
	fmt.Fprintf(a.Err, "sandgate: there is no command %q; sandgate help lists them\n", name)
	return usageExit
}

func (a *app) run(ctx context.Context, c command, args []string) int {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	err := c.run(ctx, a, set, args)
	var status console.ExitStatus
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
		fmt.Fprintf(a.Err, "sandgate %s: %v; sandgate %s --help tells more\n", c.name, parse.error, c.name)
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
	fmt.Fprintf(a.Err, "sandgate: %s (%s)\n", console.ErrorText(err), kind)
	advice := kind.Row().Advice
	var known *fault.Error
	if errors.As(err, &known) && known.RetryAfter > 0 {
		advice += fmt.Sprintf(" Try again in %d s.", known.RetryAfter)
	}
	fmt.Fprintf(a.Err, "  %s\n", advice)
	return kind.Row().Exit
}
