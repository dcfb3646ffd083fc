package librechat

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// program sets a program that returns 0 after it has changed the files.
func (x *fixture) program(change func(files map[string]string)) {
	x.node.program = func(_ protocol.ChannelOpen, files map[string]string) (string, string,
		protocol.Exit,
	) {
		if change != nil {
			change(files)
		}
		return "", "", exited(0)
	}
}

// TestRequestsOfRun counts the requests of a run in a session that stays: those of the first run of
// a gateway, and fewer later ones. Only a run with inputs or results reads what the files are.
func TestRequestsOfRun(t *testing.T) {
	x := newFixture(t)
	body := map[string]any{"lang": "bash", "code": "true", "runtime_session_hint": "c"}
	run := func(change func(files map[string]string)) []string {
		t.Helper()
		x.program(change)
		x.node.requests = nil
		x.exec("ada", body)
		slices.Sort(x.node.requests)
		return x.node.requests
	}
	least := []string{
		"attach", "channel.open", "file.changes /mnt/data", "repeat.begin", "repeat.end",
	}
	first := slices.Sorted(slices.Values(append(slices.Clone(least), "file.changes /mnt/data",
		"file.changes /mnt/data", "file.mkdir /mnt/data",
		"file.write "+plotsDir+"/librechat_show.py", "session.ensure")))
	if got := run(nil); !slices.Equal(got, first) {
		t.Errorf("the first run: %q", got)
	}
	if got := run(nil); !slices.Equal(got, least) {
		t.Errorf("the second run: %q", got)
	}
	argv := func() []string {
		for _, s := range x.node.sessions {
			if len(s.opened) > 0 {
				return s.opened[len(s.opened)-1].Argv
			}
		}
		return nil
	}
	if a := argv(); !slices.Equal(a, []string{"bash", "-c", "true", folder + "/main.sh"}) {
		t.Errorf("the program of the second run: %q", a)
	}
	body["code"] = "true #" + strings.Repeat("x", maxInline)
	if got := run(nil); !slices.Contains(got, "file.write /mnt/data/main.sh") || argv() != nil {
		t.Errorf("a run of long code: %q, %d arguments", got, len(argv()))
	}
	x.node.notes = map[string]string{} // another gateway was killed during its run
	if got := run(nil); !slices.Contains(got, "session.ensure") {
		t.Errorf("a run after a turn without a note: %q", got)
	}
	body["code"] = "true"
	got := run(func(files map[string]string) { files[folder+"/a.txt"] = "x" })
	if !slices.Contains(got, "file.read "+knownFile) || !slices.Contains(got, "file.write "+knownFile) {
		t.Errorf("a run with a result: %q", got)
	}
	body["lang"], body["code"] = "py", "1"
	python := slices.Sorted(slices.Values(append(slices.Clone(least),
		"file.remove /mnt/data/main.py")))
	if got := run(nil); !slices.Equal(got, python) {
		t.Errorf("a run in Python: %q", got)
	}
}

// TestChangesBetweenRuns: a file that changes after a run is a result of the next one, unless the
// client has sent it.
func TestChangesBetweenRuns(t *testing.T) {
	x := newFixture(t)
	body := map[string]any{"lang": "py", "code": "1", "runtime_session_hint": "c"}
	x.program(nil)
	x.exec("ada", body)
	for _, s := range x.node.sessions {
		if s.create.Name != "" {
			s.put(folder+"/late.txt", "by a process of the first run")
		}
	}
	if a := x.exec("ada", body); len(a.Files) != 1 || a.Files[0].Name != "late.txt" {
		t.Errorf("%+v", a.Files)
	}
	body["files"] = []any{x.upload("ada", "sent.txt", "sent")}
	if a := x.exec("ada", body); len(a.Files) != 1 || !a.Files[0].Inherit {
		t.Errorf("%+v", a.Files)
	}
}

// TestReplacedSession: a session that was replaced since the last run has everything that a run needs.
func TestReplacedSession(t *testing.T) {
	x := newFixture(t)
	body := map[string]any{"lang": "py", "code": "1", "runtime_session_hint": "c"}
	x.program(nil)
	first := x.exec("ada", body)
	clear(x.node.sessions)
	x.program(func(files map[string]string) {
		if files[plotsDir+"/librechat_show.py"] != show || files[folder+"/main.py"] != "1" {
			t.Errorf("a new session has %v", files)
		}
	})
	if a := x.exec("ada", body); a.RuntimeStatus != "new" || a.Runtime != first.Runtime {
		t.Errorf("%+v", a)
	}
	if len(x.node.turns) != 0 {
		t.Errorf("%d turns stay", len(x.node.turns))
	}
}

// TestSourceStays: a file that a program has written over its own code is a result, and stays.
func TestSourceStays(t *testing.T) {
	x := newFixture(t)
	body := map[string]any{"lang": "py", "code": "1", "runtime_session_hint": "c"}
	x.program(func(files map[string]string) { files[folder+"/main.py"] = "a result" })
	if a := x.exec("ada", body); len(a.Files) != 1 || a.Files[0].Name != "main.py" {
		t.Errorf("%+v", a)
	}
	x.program(func(files map[string]string) {
		if files[folder+"/main.py"] != "a result" || files[folder+"/main_2.py"] != "1" {
			t.Errorf("%v", files)
		}
	})
	if a := x.exec("ada", body); len(a.Files) != 0 {
		t.Errorf("%+v", a)
	}
}

// TestTemplateOfConversation: a run whose language the session of its conversation lacks has another
// session of the conversation, with the template that has the language.
func TestTemplateOfConversation(t *testing.T) {
	x := newFixture(t)
	x.node.templates.Templates = []protocol.Template{
		{Name: "programs", State: "ready", Languages: []string{"c", "rust"}},
	}
	missed := false
	x.node.refuse = func(op string) error {
		if op != protocol.OpChannelOpen || missed {
			return nil
		}
		missed = true
		err := fault.New(fault.NotFound, "node", "there is no language rust")
		err.Field = "language"
		return err
	}
	x.node.program = func(open protocol.ChannelOpen, files map[string]string) (string, string,
		protocol.Exit,
	) {
		files[folder+"/count"] += "x"
		return x.node.sessions[open.Session].create.Template + files[folder+"/count"], "", exited(0)
	}
	body := map[string]any{"lang": "rs", "code": "fn main() {}", "runtime_session_hint": "c"}
	first := x.exec("ada", body)
	missed = false
	second := x.exec("ada", body)
	body["lang"] = "py"
	python := x.exec("ada", body)
	if first.Stdout != "programsx" || second.Stdout != "programsxx" || python.Stdout != "x" ||
		first.RuntimeStatus != "new" || second.RuntimeStatus != "reused" ||
		first.Runtime != second.Runtime || first.Runtime == python.Runtime {
		t.Errorf("%+v\n%+v\n%+v", first, second, python)
	}
	x.node.templates.Templates, missed = nil, false
	body["lang"] = "rs"
	if a := x.exec("ada", body); !strings.Contains(a.Stderr, "rs (rust) is not installed") {
		t.Errorf("no template: %+v", a)
	}
}

// TestStays: the sessions that are remembered are bounded.
func TestStays(t *testing.T) {
	x := stays{sessions: map[string]staying{}}
	for i := range maxStays + 3 {
		x.set(strconv.Itoa(i), staying{session: "s"})
	}
	x.set("1", staying{"s", true})
	if len(x.sessions) != maxStays || !x.get("1").shows || x.get("none").session != "" {
		t.Errorf("%d sessions", len(x.sessions))
	}
}
