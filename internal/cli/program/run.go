// Package program runs programs and commands in sessions, with the streams, the signals and the exit
// status of this process.
package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/filecopy"
	"github.com/sandgate/sandgate/internal/cli/flags"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// RunOptions are the flags of run.
type RunOptions struct {
	Code     string
	Language string
	Files    flags.List
	Env      flags.List
	Stdin    bool
	Keep     bool
	Template string
	Session  string
	// Kernel runs the code in the session's kernel of its language instead of a program of its own.
	Kernel  bool
	Network bool
	Allow   flags.List
}

// Cell returns the code and the language of a run in a kernel.
func (o *RunOptions) Cell(ctx context.Context, a *console.Invocation, c *wire.Client, file string,
) (code, language string, err error) {
	_, content, language, err := o.program(ctx, a, c, file)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = content.Close() }()
	text, err := io.ReadAll(io.LimitReader(content, protocol.MaxCode+1))
	switch {
	case err != nil:
		return "", "", console.FileError(err)
	case len(text) > protocol.MaxCode:
		return "", "", fault.New(fault.TooLarge, "run", "the code has over %d bytes",
			protocol.MaxCode)
	case len(text) == 0:
		return "", "", fault.Invalid("run", "FILE", "there is no code")
	}
	return string(text), language, nil
}

// program returns the program's content and its name in the session.
func (o *RunOptions) program(ctx context.Context, a *console.Invocation, c *wire.Client,
	file string,
) (name string, content io.ReadCloser, language string, err error) {
	language = o.Language
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", nil, "", console.FileError(err)
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			_ = f.Close()
			return "", nil, "", fault.Invalid("run", "FILE", "%s is a directory", file)
		}
		if language == "" {
			languages, err := o.languages(ctx, c)
			if err != nil {
				_ = f.Close()
				return "", nil, "", err
			}
			for _, l := range languages {
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
	languages, err := o.languages(ctx, c)
	if err != nil {
		return "", nil, "", err
	}
	for _, l := range languages {
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
	return name, io.NopCloser(strings.NewReader(o.Code)), language, nil
}

// languages returns the languages of the server and of the template.
func (o *RunOptions) languages(ctx context.Context, c *wire.Client) ([]protocol.Language, error) {
	d, err := c.Describe(ctx)
	if err != nil || o.Template == "" {
		return d.Languages, err
	}
	t, err := c.Template(ctx, o.Template)
	return append(d.Languages, t.Kernelspecs...), err
}

// Run runs a program in a session, with this process's streams, and returns its exit status as
// the error.
func Run(ctx context.Context, a *console.Invocation, c *wire.Client, o RunOptions, file string,
	args []string,
) (err error) {
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
	id := o.Session
	if id == "" {
		s, err := c.CreateSession(ctx, protocol.SessionCreate{
			Language: language, Template: o.Template,
			Name: output.Printable(name), Network: flags.Network(o.Network, o.Allow),
		})
		if err != nil {
			return pass.why(err)
		}
		id = s.ID
		if o.Keep {
			fmt.Fprintf(a.Err, "session %s\n", id)
		} else {
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), CleanupLimit)
				defer cancel()
				if derr := c.DeleteSession(ctx, id); derr != nil &&
					!fault.Is(derr, fault.NotFound) && err == nil {
					err = derr
				}
			}()
		}
	}
	if _, err := c.Upload(ctx, id, name, 0o755, content); err != nil {
		return pass.why(err)
	}
	if err := uploadFiles(ctx, a, c, id, o.Files); err != nil {
		return pass.why(err)
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return pass.why(err)
	}
	defer func() { _ = conn.Close() }()
	stdin := file != "-" && (o.Stdin || !console.IsTerminal(a.In))
	p, err := conn.Start(ctx, protocol.ChannelOpen{
		Session: id, Language: language, File: name, Args: args, Env: Environment(a, o.Env),
		Stdin: stdin,
	})
	if err != nil {
		return pass.why(err)
	}
	pass.to(p)
	if stdin {
		// Nothing waits for it: a read of standard input cannot be cancelled, and the process ends
		// with the program.
		go feed(ctx, a.In, p)
	}
	err = show(ctx, a, p)
	if err != nil {
		return pass.why(err)
	}
	return exitStatus(a, p)
}

// uploadFiles copies each FROM[:TO] into the session.
func uploadFiles(ctx context.Context, a *console.Invocation, c *wire.Client, id string,
	files []string,
) error {
	for _, f := range files {
		from, to, ok := strings.Cut(f, ":")
		if !ok {
			to = filepath.Base(from)
		}
		if err := filecopy.Upload(ctx, a, c, from, id, to); err != nil {
			return err
		}
	}
	return nil
}

// exitStatus returns the error for the exit of a program, nil for status 0.
func exitStatus(a *console.Invocation, p *wire.Process) error {
	if e := p.Exit(); e != nil && e.Code != 0 {
		if err := wire.ExitError(*e); err != nil {
			return err
		}
		if e.Reason == "memory" {
			fmt.Fprintln(a.Err, "sandgate: the program was killed: it ran out of memory")
		}
		return console.ExitStatus(e.Code)
	}
	return nil
}
