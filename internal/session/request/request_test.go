package request

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

func newChecker() *Checker {
	return New(Config{
		Languages: []kernel.Manifest{
			{
				Name: "python", Aliases: []string{"py"}, Extensions: []string{".py"},
				Program: []string{"python3", "{file}"},
			},
			{Name: "sql", Extensions: []string{".sql"}},
		},
		DefaultLanguage: "python",
		Limits:          protocol.Limits{MemoryBytes: 1 << 30},
		MaxLimits:       protocol.Limits{MemoryBytes: 4 << 30},
		Lifetime:        time.Hour, MaxLifetime: 24 * time.Hour,
		PauseAfter: time.Minute, HibernateAfter: -1, MaxIdle: time.Hour,
	})
}

// field returns the field that an error names, or the error's text.
func field(err error) string {
	var f *fault.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &f):
		return f.Field
	}
	return err.Error()
}

// TestOpen checks requests for channels, and the arguments that they lead to.
func TestOpen(t *testing.T) {
	own := snapshot.Spec{}
	own.Layout.Image = "/own"
	for name, c := range map[string]struct {
		spec  snapshot.Spec
		r     protocol.ChannelOpen
		want  string // language, arguments
		field string
	}{
		"a kernel": {
			snapshot.Spec{Language: "python"},
			protocol.ChannelOpen{Kind: "kernel"},
			"python: ", "",
		},
		"content of a file": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "process", File: "a.py", Content: "1"},
			"python: python3 a.py", "",
		},
		"content without a file": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "process", Argv: []string{"a"}, Content: "1"},
			"", "content",
		},
		"content of a terminal": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "terminal", File: "a.py", Content: "1"},
			"", "content",
		},
		"a kernel by alias": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "kernel", Language: "py"},
			"python: ", "",
		},
		"no language": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "kernel"},
			"",
			"language",
		},
		"an unknown language": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "kernel", Language: "cobol"},
			"", "language",
		},
		"a kernel with arguments": {
			snapshot.Spec{Language: "sql"},
			protocol.ChannelOpen{Kind: "kernel", Argv: []string{"x"}},
			"", "kind",
		},
		"a process": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "process", Argv: []string{"ls", "-l"}},
			": ls -l", "",
		},
		"a program": {snapshot.Spec{}, protocol.ChannelOpen{
			Kind: "process",
			File: "-x.py", Args: []string{"1"},
		}, "python: python3 ./-x.py 1", ""},
		"a file of no language": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "process", File: "x.txt"},
			"", "file",
		},
		"a file without a program": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "process", File: "x.sql"},
			"", "language",
		},
		"arguments and a file": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "process", Argv: []string{"x"}, File: "x.py"},
			"", "file",
		},
		"nothing": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "process"},
			"",
			"argv",
		},
		"a zero byte": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "process", Argv: []string{"a\x00"}},
			"", "argv",
		},
		"too many bytes": {snapshot.Spec{}, protocol.ChannelOpen{
			Kind: "process",
			Argv: []string{strings.Repeat("x", maxArgBytes+1)},
		}, "", "argv"},
		"a terminal": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "terminal"},
			": bash", "",
		},
		"a terminal without bash": {
			own,
			protocol.ChannelOpen{Kind: "terminal"},
			": sh -c command -v bash >/dev/null && exec bash; exec sh", "",
		},
		"a terminal with stdin": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "terminal", Stdin: true},
			"", "stdin",
		},
		"a variable without a name": {snapshot.Spec{}, protocol.ChannelOpen{
			Kind: "process",
			Argv: []string{"x"}, Env: map[string]string{"1": ""},
		}, "", "env"},
		"a long key": {snapshot.Spec{}, protocol.ChannelOpen{
			Kind: "process",
			Key:  strings.Repeat("x", protocol.MaxKey+1),
		}, "", "key"},
		"another kind": {
			snapshot.Spec{},
			protocol.ChannelOpen{Kind: "port"},
			"",
			"kind",
		},
	} {
		language, argv, err := newChecker().Open(c.spec, c.r)
		if got := language + ": " + strings.Join(argv, " "); field(err) != c.field || err == nil &&
			got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestUpdate checks changes of a session. A change that is refused changes
// nothing.
func TestUpdate(t *testing.T) {
	num := func(n int64) *int64 { return &n }
	text := func(s string) *string { return &s }
	created := time.Now()
	now := snapshot.Status{
		Name: "old", Expires: created.Add(time.Hour),
		Policy: snapshot.Policy{Pause: time.Second},
	}
	yes := true
	for name, c := range map[string]struct {
		r     protocol.SessionUpdate
		field string
		check func(s snapshot.Status) bool
	}{
		"nothing": {
			protocol.SessionUpdate{},
			"",
			func(s snapshot.Status) bool { return s.Name == "old" && s.Policy == now.Policy },
		},
		"a name": {
			protocol.SessionUpdate{Name: text("new")},
			"",
			func(s snapshot.Status) bool { return s.Name == "new" },
		},
		"a bad name": {protocol.SessionUpdate{Name: text("\x00")}, "name", nil},
		"idle": {
			protocol.SessionUpdate{IdlePauseSeconds: num(5)},
			"",
			func(s snapshot.Status) bool { return s.Policy.Pause == 5*time.Second },
		},
		"the default": {
			protocol.SessionUpdate{IdlePauseSeconds: num(0)},
			"",
			func(s snapshot.Status) bool { return s.Policy.Pause == time.Minute },
		},
		"too long": {
			protocol.SessionUpdate{IdlePauseSeconds: num(7200)},
			"idle_pause_seconds", nil,
		},
		"never": {
			protocol.SessionUpdate{IdleHibernateSeconds: num(protocol.Never)},
			"",
			func(s snapshot.Status) bool { return s.Policy.Hibernate == -1 },
		},
		"may not never": {
			protocol.SessionUpdate{IdlePauseSeconds: num(protocol.Never)},
			"idle_pause_seconds", nil,
		},
		"kept alive": {
			protocol.SessionUpdate{KeepAlive: &yes},
			"",
			func(s snapshot.Status) bool { return s.Policy.KeepAlive },
		},
		"a lifetime": {
			protocol.SessionUpdate{LifetimeSeconds: num(7200)},
			"",
			func(s snapshot.Status) bool { return s.Expires.After(now.Expires) },
		},
		"a long lifetime": {
			protocol.SessionUpdate{LifetimeSeconds: num(25 * 3600)},
			"lifetime_seconds", nil,
		},
	} {
		next, err := newChecker().Update(noderpc.Principal{}, now, created, c.r)
		if field(err) != c.field || err == nil && !c.check(next) || err != nil &&
			(next.Name != now.Name || next.Policy != now.Policy) {
			t.Errorf("%s: %+v, %v", name, next, err)
		}
	}
}

// TestLimits checks that limits are between the smallest useful ones and the
// server's.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		asked protocol.Limits
		field string
	}{
		"none":                     {protocol.Limits{}, ""},
		"within":                   {protocol.Limits{MemoryBytes: 2 << 30}, ""},
		"too much":                 {protocol.Limits{MemoryBytes: 5 << 30}, "limits.memory_bytes"},
		"too little":               {protocol.Limits{MemoryBytes: 1 << 20}, "limits.memory_bytes"},
		"without a server's bound": {protocol.Limits{CellSeconds: 1 << 20}, ""},
		"not to be asked for":      {protocol.Limits{Processes: 64}, "limits.processes"},
	} {
		if err := newChecker().limits("test", &c.asked); field(err) != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}
