package session

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of requests, beside those of package protocol.
const (
	maxName     = 128       // bytes of a session's name
	maxEnv      = 128       // variables
	maxEnvBytes = 64 << 10  // names and values
	maxArgs     = 1024      // of a process
	maxArgBytes = 128 << 10 // all together
)

// wanted is a create request, resolved.
type wanted struct {
	template *warm.Template
	language string // the session's default; "" where there is none
	lifetime time.Duration
	limits   protocol.Limits
	policy   snapshot.Policy
	network  *protocol.Network
	// volumes are the caller's and behind them the template's.
	volumes []protocol.Mount
}

// checkCreate checks and resolves a create request.
func (m *Manager) checkCreate(p noderpc.Principal, r protocol.SessionCreate) (w wanted, err error) {
	const op = "session.create"
	if err := checkName(op, r.Name); err != nil {
		return w, err
	}
	if err := checkEnv(op, r.Env); err != nil {
		return w, err
	}
	if r.LifetimeSeconds < 0 || r.LifetimeSeconds > int64(m.cfg.MaxLifetime/time.Second) {
		return w, fault.Invalid(op, "lifetime_seconds", "a lifetime has between 0 and %d seconds", int64(m.cfg.MaxLifetime/time.Second))
	}
	w.lifetime = time.Duration(r.LifetimeSeconds) * time.Second
	if w.lifetime == 0 {
		w.lifetime = m.cfg.Lifetime
	}
	if w.policy, err = m.checkPolicy(r); err != nil {
		return w, err
	}
	if r.Template != "" {
		if w.template, w.language, err = m.checkTemplate(p, r); err != nil {
			return w, err
		}
	} else {
		w.language = m.cfg.defaultLanguage()
		if r.Language != "" {
			if w.language, err = m.checkLanguage(op, r.Language); err != nil {
				return w, err
			}
		}
		w.template = m.provider.Language(w.language)
	}
	field, network := "network", r.Network
	w.volumes = r.Volumes
	if def := w.template.Def(); def != nil {
		w.volumes = volume.MergeMounts(r.Volumes, def.Spec.Volumes)
		if network == nil {
			field, network = "template.session_network", def.Spec.SessionNetwork
		}
	}
	if err := volume.CheckMounts(op, w.volumes); err != nil {
		return w, err
	}
	if w.network, err = m.cfg.Egress.Check(op, field, p.Tenant, network); err != nil {
		return w, err
	}
	w.limits = w.template.Limits()
	if r.Limits != nil {
		if err := m.checkLimits(op, r.Limits); err != nil {
			return w, err
		}
		w.limits = warm.MergeLimits(w.limits, *r.Limits)
	}
	return w, nil
}

func checkName(op, name string) error {
	if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, isControl) {
		return fault.Invalid(op, "name", "a name is UTF-8 text of at most %d bytes without control characters", maxName)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// checkLanguage returns the name of a language that is given by name or
// alias.
func (m *Manager) checkLanguage(op, name string) (string, error) {
	if l, ok := m.cfg.language(name); ok {
		return l.Name, nil
	}
	var names []string
	for _, l := range m.cfg.Languages {
		names = append(names, l.Name)
	}
	return "", fault.Invalid(op, "language", "there is no language %.40q; there are %s", name, strings.Join(names, ", "))
}

// checkEnv checks variables.
func checkEnv(op string, env map[string]string) error {
	if len(env) > maxEnv {
		return fault.Invalid(op, "env", "there are %d variables, the limit is %d", len(env), maxEnv)
	}
	valid := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	bytes := 0
	for name, value := range env {
		if !valid.MatchString(name) {
			return fault.Invalid(op, "env", "%.80q is not the name of a variable: letters, digits and _, not a digit first", name)
		}
		if strings.ContainsRune(value, 0) {
			return fault.Invalid(op, "env", "the value of %.80s holds a zero byte", name)
		}
		bytes += len(name) + len(value)
	}
	if bytes > maxEnvBytes {
		return fault.Invalid(op, "env", "the variables have %d bytes, the limit is %d", bytes, maxEnvBytes)
	}
	return nil
}

// checkOpen returns the language of a kernel or the arguments of a process.
func (m *Manager) checkOpen(s *Session, r protocol.ChannelOpen) (language string, argv []string, err error) {
	const op = "channel.open"
	if len(r.Key) > protocol.MaxKey {
		return "", nil, fault.Invalid(op, "key", "a key has at most %d bytes", protocol.MaxKey)
	}
	if err := checkEnv(op, r.Env); err != nil {
		return "", nil, err
	}
	if r.Cwd != "" {
		if err := wire.CheckPath(op, "cwd", r.Cwd); err != nil {
			return "", nil, err
		}
	}
	switch r.Kind {
	case "kernel":
		language := s.spec.Language
		if r.Language != "" {
			if language, err = m.checkLanguage(op, r.Language); err != nil {
				return "", nil, err
			}
		}
		if language == "" {
			return "", nil, fault.Invalid(op, "language", "the session's image has no language")
		}
		if len(r.Argv) > 0 || r.File != "" || len(r.Args) > 0 || r.Stdin {
			return "", nil, fault.Invalid(op, "kind", "argv, file, args and stdin are for a process")
		}
		return language, nil, nil
	case "process":
		return m.checkProcess(op, r)
	case "terminal":
		if s.spec.Layout.Image != "" && len(r.Argv) == 0 && r.File == "" {
			r.Argv = []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}
		}
		return m.checkTerminal(op, r)
	}
	return "", nil, fault.Invalid(op, "kind", "a channel is a kernel, a process or a terminal, not %.40q", r.Kind)
}

// checkTerminal is checkProcess for a terminal, which has a shell unless
// something else is asked for.
func (m *Manager) checkTerminal(op string, r protocol.ChannelOpen) (language string, argv []string, err error) {
	if err := channel.SizeOf(r).Check(op); err != nil {
		return "", nil, err
	}
	if r.Stdin {
		return "", nil, fault.Invalid(op, "stdin", "a terminal always takes input")
	}
	if len(r.Argv) == 0 && r.File == "" {
		r.Argv = []string{"bash"}
	}
	return m.checkProcess(op, r)
}

func (m *Manager) checkProcess(op string, r protocol.ChannelOpen) (language string, argv []string, err error) {
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
		if language, argv, err = m.program(op, r); err != nil {
			return "", nil, err
		}
	}
	bytes := 0
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			return "", nil, fault.Invalid(op, "argv", "an argument holds a zero byte")
		}
		bytes += len(a)
	}
	if argv[0] == "" || len(argv) > maxArgs || bytes > maxArgBytes {
		return "", nil, fault.Invalid(op, "argv", "a process has a name, and at most %d arguments with %d bytes", maxArgs, maxArgBytes)
	}
	return language, argv, nil
}

// program returns the arguments that run a file in its language's own way.
func (m *Manager) program(op string, r protocol.ChannelOpen) (language string, argv []string, err error) {
	if err := wire.CheckPath(op, "file", r.File); err != nil {
		return "", nil, err
	}
	if r.Language != "" {
		if language, err = m.checkLanguage(op, r.Language); err != nil {
			return "", nil, err
		}
	} else {
		l, err := kernel.FindFile(m.cfg.Languages, r.File)
		if err != nil {
			return "", nil, fault.Invalid(op, "file", "no language has files that end in %.40q; say which", filepath.Ext(r.File))
		}
		language = l.Name
	}
	l, _ := m.cfg.language(language) // it was found above
	if len(l.Program) == 0 {
		return "", nil, &fault.Error{Kind: fault.Unsupported, Op: op, Field: "language", Message: fmt.Sprintf("files of %s cannot be run as programs", language)}
	}
	file := r.File
	if strings.HasPrefix(file, "-") {
		file = "./" + file // a file and not an option
	}
	return language, l.Run(file, r.Args...), nil
}
