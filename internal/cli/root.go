package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/cli/bridge"
	"github.com/sandgate/sandgate/internal/cli/reports"
	"github.com/sandgate/sandgate/internal/console"
)

// The groups of commands in the overview.
const (
	groupCode   = "code"
	groupFiles  = "files"
	groupThings = "things"
	groupServer = "server"
	groupOther  = "other"
)

// newRoot builds the tree of commands.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "sandgate COMMAND",
		Short: "Sandgate runs code in sandboxes and streams its output",
		Long: `
The client's commands find the server by --url, by SANDGATE_URL and SANDGATE_TOKEN, or by the
profile that sandgate serve writes to ~/.config/sandgate/client.yaml.

Exit codes: a program's own status (128+n after signal n); 2 for an invalid command line; 200 and
up for errors of Sandgate, one for each kind.`,
		Args:          subcommand,
		SilenceErrors: true, SilenceUsage: true, DisableAutoGenTag: true,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.RunE = func(*cobra.Command, []string) error {
		a.help(root, nil)
		return console.ExitStatus(usageExit)
	}
	root.AddGroup(
		&cobra.Group{ID: groupCode, Title: "Run code"},
		&cobra.Group{ID: groupFiles, Title: "Files of a session"},
		&cobra.Group{ID: groupThings, Title: "Sessions, templates, snapshots, volumes"},
		&cobra.Group{ID: groupServer, Title: "Operate a server"},
		&cobra.Group{ID: groupOther, Title: "Other"},
	)
	for id, all := range map[string][]*cobra.Command{
		groupCode: {
			runCommand(a), replCommand(a), shellCommand(a), execCommand(a), attachCommand(a),
			psCommand(a), logsCommand(a),
			killCommand(a), portCommand(a), linkCommand(a), serviceCommand(a),
			recordCommand(a), bridge.Command(a.Invocation, a.profileOf),
		},
		groupFiles: {
			lsCommand(a), cpCommand(a), mvCommand(a), mkdirCommand(a), rmCommand(a),
			watchCommand(a),
		},
		groupThings: {
			sessionCommand(a), forkCommand(a), templateCommand(a), snapshotCommand(a),
			volumeCommand(a),
		},
		groupServer: {
			serveCommand(a), nodeCommand(a), gatewayCommand(a), clusterCommand(a), statusCommand(a),
			checkCommand(a), doctorCommand(a),
			reloadCommand(a), keyCommand(a), tenantCommand(a), tokenCommand(a),
			reports.UsageCommand(reportProgram(a)),
			reports.AuditCommand(reportProgram(a)),
			backupCommand(a), restoreCommand(a),
			configCommand(a),
		},
		groupOther: {
			versionCommand(a), completionCommand(), helpCommand(a), manCommand(),
			confinedCommand(),
		},
	} {
		for _, c := range all {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	root.SetHelpFunc(a.help)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	prepare(root)
	return root
}

// prepare adds the check of the arguments in the Use line to every command below c.
func prepare(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	for _, sub := range c.Commands() {
		switch {
		case sub.Args != nil:
		case sub.HasSubCommands():
			sub.Args = subcommand
			sub.RunE = func(cmd *cobra.Command,
				_ []string,
			) error {
				return usagef("a command is needed: %s", verbs(cmd))
			}
		default:
			sub.Args = checkArguments
		}
		prepare(sub)
	}
}

// group returns a command that only has commands below it.
func group(use, short, long, example string, all ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example}
	c.AddCommand(all...)
	return c
}

// verbs lists the commands below one.
func verbs(c *cobra.Command) string {
	var all []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	return strings.Join(all, ", ")
}

// subcommand rejects a word that is not a command below cmd.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Sprintf("there is no command %q", args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("%s", err)
}
