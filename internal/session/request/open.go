package request

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/pty"
)

// Open checks a request for a new channel of a session. It returns the language of
// a kernel, or the arguments of a process or terminal. Errors: InvalidArgument,
// Unsupported for a file of a language without programs.
func (c *Checker) Open(s snapshot.Spec,
	r protocol.ChannelOpen,
) (language string, argv []string, err error) {
	const op = "channel.open"
	if len(r.Key) > protocol.MaxKey {
		return "", nil, fault.Invalid(op, "key", "a key has at most %d bytes", protocol.MaxKey)
	}
	if len(r.Tag) > protocol.MaxKey {
		return "", nil, fault.Invalid(op, "tag", "a tag has at most %d bytes", protocol.MaxKey)
	}
	if err := checkEnv(op, r.Env); err != nil {
		return "", nil, err
	}
	if r.Content != "" && (r.Kind != "process" || r.File == "") {
		return "", nil, fault.Invalid(op, "content", "content is that of the file of a process")
	}
	if r.Cwd != "" {
		if err := wire.CheckPath(op, "cwd", r.Cwd); err != nil {
			return "", nil, err
		}
	}
	switch r.Kind {
	case "kernel":
		language := s.Language
		if r.Language != "" {
			if language, err = c.Language(op, r.Language, s.Layout.Kernelspecs...); err != nil {
				return "", nil, err
			}
		}
		if language == "" {
			return "", nil, fault.Invalid(op, "language", "the session's image has no language")
		}
		if len(r.Argv) > 0 || r.File != "" || len(r.Args) > 0 || r.Stdin {
			return "", nil, fault.Invalid(op, "kind",
				"argv, file, args and stdin are for a process")
		}
		if r.Tag != "" {
			return "", nil, fault.Invalid(op, "tag", "a tag is for a process or a terminal")
		}
		if r.Key == "" && (len(r.Env) > 0 || r.Cwd != "") {
			return "", nil, fault.Invalid(op, "key",
				"a kernel with its own env or cwd is a separate kernel; give it a key")
		}
		return language, nil, nil
	case "process":
		return c.process(op, s, r)
	case "terminal":
		if s.Layout.Image != "" && len(r.Argv) == 0 && r.File == "" {
			r.Argv = []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}
		}
		return c.terminal(op, s, r)
	}
	return "", nil, fault.Invalid(op, "kind",
		"a channel is a kernel, a process or a terminal, not %.40q", r.Kind)
}

// terminal is process for a terminal. It runs bash if the request names nothing.
func (c *Checker) terminal(op string, s snapshot.Spec,
	r protocol.ChannelOpen,
) (language string, argv []string, err error) {
	if size := (pty.Size{Cols: r.Cols, Rows: r.Rows}); size != (pty.Size{}) {
		// otherwise the default size
		if err := size.Check(op); err != nil {
			return "", nil, err
		}
	}
	if r.Stdin {
		return "", nil, fault.Invalid(op, "stdin", "a terminal always takes input")
	}
	if len(r.Argv) == 0 && r.File == "" {
		r.Argv = []string{"bash"}
	}
	return c.process(op, s, r)
}

// process checks the arguments of a process, or makes them from a file's name.
func (c *Checker) process(op string, s snapshot.Spec,
	r protocol.ChannelOpen,
) (language string, argv []string, err error) {
	switch {
	case len(r.Argv) > 0 && r.File != "":
		return "", nil, fault.Invalid(op, "file", "give argv or file, not both")
	case len(r.Argv) > 0 && len(r.Args) > 0:
		return "", nil, fault.Invalid(op, "args", "args follow a file; put them into argv")
	case len(r.Argv) > 0:
		argv = r.Argv
	case r.File == "":
		return "", nil, fault.Invalid(op, "argv", "a process needs argv or file")
	default:
		if language, argv, err = c.program(op, s, r); err != nil {
			return "", nil, err
		}
	}
	if err := checkArguments(op, argv); err != nil {
		return "", nil, err
	}
	return language, argv, nil
}

func checkArguments(op string, argv []string) error {
	bytes := 0
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			return fault.Invalid(op, "argv", "an argument holds a zero byte")
		}
		bytes += len(a)
	}
	if argv[0] == "" || len(argv) > maxArgs || bytes > maxArgBytes {
		return fault.Invalid(op, "argv",
			"a process has a name, and at most %d arguments with %d bytes", maxArgs, maxArgBytes)
	}
	return nil
}

// program returns the arguments that run a file with the program of its language.
func (c *Checker) program(op string, s snapshot.Spec,
	r protocol.ChannelOpen,
) (language string, argv []string, err error) {
	if err := wire.CheckPath(op, "file", r.File); err != nil {
		return "", nil, err
	}
	all := slices.Concat(c.cfg.Languages, s.Layout.Kernelspecs)
	if r.Language != "" {
		if language, err = c.Language(op, r.Language, s.Layout.Kernelspecs...); err != nil {
			return "", nil, err
		}
	} else {
		l, err := kernel.FindFile(all, r.File)
		if err != nil {
			return "", nil, fault.Invalid(op, "file",
				"no language has files that end in %.40q; say which", filepath.Ext(r.File))
		}
		language = l.Name
	}
	l, _ := kernel.Find(all, language) // it was found above
	if len(l.Program) == 0 {
		return "", nil, &fault.Error{
			Kind: fault.Unsupported, Op: op, Field: "language",
			Message: fmt.Sprintf("files of %s cannot be run as programs", language),
		}
	}
	file := r.File
	if strings.HasPrefix(file, "-") {
		file = "./" + file // a file and not an option
	}
	return language, l.Run(file, r.Args...), nil
}
