package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/program"
	"github.com/sandgate/sandgate/internal/cli/repl"
)

func runCommand(a *app) *cobra.Command {
	var o program.RunOptions
	c := &cobra.Command{
		Use:   "run FILE|- [ARGUMENT]...",
		Short: "Run a program in a sandbox and exit with its status",
		Long: `
FILE is sent to a new session and started there; - reads the program from standard input, and
-c CODE replaces FILE. The program's output is shown as it arrives. Standard input is forwarded
unless it is a terminal (then only with --stdin). Ctrl-C sends SIGINT, a second Ctrl-C SIGKILL.

A program of a compiled language is compiled first. The compiler's messages are on standard error;
if it fails, its exit status is the command's.

With --kernel the code runs in the session's kernel instead: its variables stay, and repl, notebooks
and other clients see them. The exit status is 1 when the code failed.

The exit status is the program's, 128+n after signal n; 200 and up are errors of Sandgate, such as
216 when the sandbox was lost.`,
		Example: `  sandgate run script.py --fast
  sandgate run --file data.csv analyse.py < input.txt
  echo 'print(6 * 7)' | sandgate run -
  sandgate run --template programs hello.rs
  sandgate run --session ID --kernel step2.py`,
		Args: func(_ *cobra.Command, args []string) error {
			if o.Session != "" && (o.Network || len(o.Allow) > 0) {
				return usagef("--network and --allow are for new sessions, not for an existing one")
			}
			if o.Session != "" && o.Template != "" {
				return usagef("--template is for a new session, not for an existing one")
			}
			if o.Kernel && (o.Session == "" || o.Stdin || len(o.Env) > 0 || len(o.Files) > 0) {
				return usagef("--kernel needs --session, without --stdin, --env and --file")
			}
			if o.Kernel && (len(args) > 1 || o.Code != "" && len(args) > 0) {
				return usagef("code in a kernel has no arguments")
			}
			if o.Code == "" && len(args) == 0 {
				return usagef("the argument FILE is missing; - or -c CODE can take its place")
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVarP(&o.Code, "code", "c", "", "`code` to run instead of a file")
	flags.StringVarP(&o.Language, "language", "l", "",
		"`language` of the program; default by the file's ending, then python")
	flags.Var(&o.Files, "file", "another `file` to send, LOCAL or LOCAL:REMOTE; can be given again")
	flags.Var(&o.Env, "env", "environment `variable`, NAME=VALUE or NAME; can be given again")
	flags.BoolVar(&o.Stdin, "stdin", false, "forward standard input even when it is a terminal")
	flags.BoolVar(&o.Keep, "keep", false, "keep the session and print its id on standard error")
	flags.BoolVar(&o.Network, "network", false, "let it reach the hosts that the server allows")
	flags.Var(&o.Allow, "allow",
		"let it reach this `host`, such as python, git.example.org or *.example.org:443; can be repeated")
	flags.StringVar(&o.Template, "template", "", "run in a new session of this `template`")
	flags.StringVar(&o.Session, "session", "", "run in this `session`, which is kept")
	flags.BoolVar(&o.Kernel, "kernel", false,
		"run in the default kernel of the language, which all clients of the session share")
	passArguments(c)
	return a.withClient(c, func(ctx context.Context, server *wire.Client, args []string) error {
		file := ""
		if o.Code == "" {
			file, args = args[0], args[1:]
		}
		if o.Kernel {
			code, language, err := o.Cell(ctx, a.Invocation, server, file)
			if err != nil {
				return err
			}
			return repl.Run(ctx, a.Invocation, server, repl.Options{
				Session: o.Session, Language: language, Code: code,
			})
		}
		return program.Run(ctx, a.Invocation, server, o, file, args)
	})
}
