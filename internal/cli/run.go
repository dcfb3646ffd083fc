package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol"
)

func runCommand(a *app) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use: "run FILE|- [ARGUMENT]...", Short: "Run a program in a sandbox and exit with its status",
		Long: `
FILE is sent to a new session and started there; - reads the program from standard input, and
-c CODE takes its place. The program's output is shown as it comes. Standard input is passed on
unless it is a terminal (then with --stdin). Ctrl-C is passed on as SIGINT, the second as SIGKILL.

The exit status is the program's, 128+n after signal n; 200 and up are errors of Sandgate, such as
216 when the sandbox was lost.`,
		Example: `  sandgate run script.py --fast
  sandgate run --file data.csv analyse.py < input.txt
  echo 'print(6 * 7)' | sandgate run -`,
		Args: func(_ *cobra.Command, args []string) error {
			if o.session != "" && (o.network || len(o.allow) > 0) {
				return usagef("--network and --allow are for a new session, not for one that exists")
			}
			if o.code == "" && len(args) == 0 {
				return usagef("the argument FILE is missing; - or -c CODE can take its place")
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringVarP(&o.code, "code", "c", "", "`code` to run instead of a file")
	flags.StringVarP(&o.language, "language", "l", "", "`language` of the program; else by the file's ending, else python")
	flags.Var(&o.files, "file", "another `file` to send, LOCAL or LOCAL:REMOTE; can be given again")
	flags.Var(&o.env, "env", "environment `variable`, NAME=VALUE or NAME; can be given again")
	flags.BoolVar(&o.stdin, "stdin", false, "pass standard input on even when it is a terminal")
	flags.BoolVar(&o.keep, "keep", false, "keep the session and print its id on standard error")
	flags.BoolVar(&o.network, "network", false, "let it reach the hosts that the server allows")
	flags.Var(&o.allow, "allow", "let it reach this `host`, as pypi.org or *.example.org:443; can be given again")
	flags.StringVar(&o.session, "session", "", "run in this `session`, which is kept")
	passArguments(c)
	return a.withClient(c, func(ctx context.Context, server *client.Client, args []string) error {
		file := ""
		if o.code == "" {
			file, args = args[0], args[1:]
		}
		return runProgram(ctx, a, server, o, file, args)
	})
}

// runOptions are the flags of run.
type runOptions struct {
	code     string
	language string
	files    list
	env      list
	stdin    bool
	keep     bool
	session  string
	network  bool
	allow    list
}

// program is what is to be run: its content and its name in the session.
func (o *runOptions) program(ctx context.Context, a *app, c *client.Client, file string) (name string, content io.ReadCloser, language string, err error) {
	language = o.language
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", nil, "", localError(err)
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return "", nil, "", fault.Invalid("run", "FILE", "%s is a directory", file)
		}
		if language == "" {
			d, err := c.Describe(ctx)
			if err != nil {
				_ = f.Close()
				return "", nil, "", err
			}
			for _, l := range d.Languages {
				for _, e := range l.Extensions {
					if strings.EqualFold(filepath.Ext(file), e) {
						language = l.Name
					}
				}
			}
		}
		return filepath.Base(file), f, language, nil
	}
	name = "main"
	d, err := c.Describe(ctx)
	if err != nil {
		return "", nil, "", err
	}
	for _, l := range d.Languages {
		is := l.Name == language || language == "" && l.Name == "python"
		for _, alias := range l.Aliases {
			is = is || alias == language
		}
		if is && len(l.Extensions) > 0 {
			name += l.Extensions[0]
		}
	}
	if file == "-" {
		return name, io.NopCloser(a.In), language, nil
	}
	return name, io.NopCloser(strings.NewReader(o.code)), language, nil
}

func runProgram(ctx context.Context, a *app, c *client.Client, o runOptions, file string, args []string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	pass := &signalPasser{cancel: cancel, interrupts: signals}
	go pass.loop(ctx)

	name, content, language, err := o.program(ctx, a, c, file)
	if err != nil {
		return pass.why(err)
	}
	defer func() { _ = content.Close() }()
	id := o.session
	if id == "" {
		s, err := c.CreateSession(ctx, protocol.SessionCreate{Language: language, Name: output.Printable(name), Network: network(o.network, o.allow)})
		if err != nil {
			return pass.why(err)
		}
		id = s.ID
		if o.keep {
			fmt.Fprintf(a.Err, "session %s\n", id)
		} else {
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
				defer cancel()
				if derr := c.DeleteSession(ctx, id); derr != nil && !fault.Is(derr, fault.NotFound) && err == nil {
					err = derr
				}
			}()
		}
	}
	if _, err := c.Upload(ctx, id, name, 0o755, content); err != nil {
		return pass.why(err)
	}
	for _, f := range o.files {
		from, to, ok := strings.Cut(f, ":")
		if !ok {
			to = filepath.Base(from)
		}
		if err := upload(ctx, a, c, from, id, to); err != nil {
			return pass.why(err)
		}
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return pass.why(err)
	}
	defer func() { _ = conn.Close() }()
	stdin := file != "-" && (o.stdin || !console.IsTerminal(a.In))
	p, err := conn.Start(ctx, protocol.ChannelOpen{
		Session: id, Language: language, File: name, Args: args, Env: environment(a, o.env), Stdin: stdin,
	})
	if err != nil {
		return pass.why(err)
	}
	pass.to(p)
	if stdin {
		// Not waited for: a read of standard input cannot be withdrawn, and
		// the process ends with the program.
		go feed(ctx, a.In, p)
	}
	err = show(ctx, a, p)
	if err != nil {
		return pass.why(err)
	}
	if e := p.Exit(); e != nil && e.Code != 0 {
		if err := client.ExitError(*e); err != nil {
			return err
		}
		if e.Reason == "memory" {
			fmt.Fprintln(a.Err, "sandgate: the program was killed: it ran out of memory")
		}
		return console.ExitStatus(e.Code)
	}
	return nil
}
