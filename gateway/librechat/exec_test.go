package librechat

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestExec runs a program: its place, its environment, its end, and the session that is deleted.
func TestExec(t *testing.T) {
	x := newFixture(t)
	x.node.program = func(open protocol.ChannelOpen, files map[string]string) (string, string,
		protocol.Exit,
	) {
		if open.Cwd != folder || open.Env["HOME"] != folder || open.Language != "python" ||
			open.File != folder+"/main.py" || !slices.Equal(open.Args, []string{"a"}) ||
			files[open.File] != "print(1)" {
			t.Errorf("%+v %v", open, files)
		}
		return "1\n", "note", exited(3)
	}
	a := x.exec("ada", map[string]any{"lang": "py", "code": "print(1)", "args": []string{"a"}})
	if a.Stdout != "1\n" || a.Stderr != "note" || *a.Code != 3 || a.Status != statusError ||
		a.Signal != nil || len(a.Files) != 0 || a.Files == nil || a.Runtime != "" ||
		!store.ValidID(a.Session) || a.Session != a.Storage {
		t.Errorf("%+v", a)
	}
	if len(x.node.sessions) != 0 || len(x.node.deleted) != 1 {
		t.Error("the session of a run stays: ", x.node.sessions)
	}
}

// TestFilesOfRuns passes files from run to run: created, inherited, changed and deleted ones.
func TestFilesOfRuns(t *testing.T) {
	x := newFixture(t)
	run := func(change func(files map[string]string), refs ...any) answer {
		t.Helper()
		x.node.program = func(_ protocol.ChannelOpen, files map[string]string) (string, string,
			protocol.Exit,
		) {
			change(files)
			return "", "", exited(0)
		}
		return x.exec("ada", map[string]any{"lang": "py", "code": "x", "files": refs})
	}
	first := run(func(files map[string]string) {
		files[folder+"/sub/a.txt"] = "one"
		files[folder+"/b.txt"] = "two"
		files[folder+"/.hidden"] = "no"
		files[folder+"/node_modules/m.js"] = "no"
	})
	if len(first.Files) != 2 || first.Files[0].Name != "b.txt" ||
		first.Files[1].Name != "sub/a.txt" || first.Files[0].Modified != nil {
		t.Fatalf("%+v", first.Files)
	}
	b, a := first.Files[0], first.Files[1]
	second := run(func(files map[string]string) {
		if files[folder+"/sub/a.txt"] != "one" || files[folder+"/b.txt"] != "two" {
			t.Errorf("a run gets %v", files)
		}
		files[folder+"/b.txt"] = "new"
	}, map[string]any{"id": a.ID, "storage_session_id": a.Storage, "name": a.Name, "kind": "user"},
		map[string]any{"id": b.ID, "session_id": b.Storage, "name": b.Name})
	if len(second.Files) != 2 || second.Files[0].Name != "b.txt" ||
		*second.Files[0].Modified != (fileID{b.ID, b.Storage}) || second.Files[0].Inherit ||
		second.Files[0].Storage != second.Session || second.Files[0].ID == b.ID ||
		!second.Files[1].Inherit || second.Files[1].ID != a.ID {
		t.Errorf("%+v", second.Files)
	}
	third := run(func(files map[string]string) { delete(files, folder+"/b.txt") },
		map[string]any{"id": b.ID, "session_id": b.Storage, "name": b.Name})
	if len(third.Files) != 0 || !slices.Equal(third.Deleted, []string{"b.txt"}) {
		t.Errorf("%+v %v", third.Files, third.Deleted)
	}
}

// TestReadOnlyInput: a change of a read-only file is no result.
func TestReadOnlyInput(t *testing.T) {
	x := newFixture(t)
	x.node.program = func(_ protocol.ChannelOpen, files map[string]string) (string, string,
		protocol.Exit,
	) {
		files[folder+"/skill/run.sh"] = "changed"
		return "", "", exited(0)
	}
	ref := x.upload("ada", "skill/run.sh", "fixed", "kind", "skill", "id", "s1", "version", "2",
		"read_only", "true")
	ref["kind"], ref["resource_id"], ref["version"] = "skill", "s1", 2
	a := x.exec("ada", map[string]any{"lang": "bash", "code": "x", "files": []any{ref}})
	if len(a.Files) != 1 || !a.Files[0].Inherit || a.Files[0].ID != ref["id"] {
		t.Errorf("%+v", a.Files)
	}
	ref["version"] = 3
	if code, e := x.refused("ada", map[string]any{
		"lang": "bash", "code": "x", "files": []any{ref},
	}); code != http.StatusForbidden || e.Field != "files" {
		t.Errorf("another version: %d %+v", code, e)
	}
}

// TestManyOutputs reports files that are over the limits.
func TestManyOutputs(t *testing.T) {
	x := newFixture(t)
	x.node.program = func(_ protocol.ChannelOpen, files map[string]string) (string, string,
		protocol.Exit,
	) {
		for i := range maxOutputs + 2 {
			files[folder+"/"+strings.Repeat("f", i+1)] = "x"
		}
		files[folder+"/large"] = strings.Repeat("x", maxOutputFile+1)
		return strings.Repeat("é", maxOutput), "", exited(0)
	}
	a := x.exec("ada", map[string]any{"lang": "py", "code": "x"})
	if len(a.Files) != maxOutputs || a.Delivery == nil ||
		*a.Delivery != (delivery{"artifact_delivery_failed", "partial", 53, 50, 3}) {
		t.Errorf("%d files, %+v", len(a.Files), a.Delivery)
	}
	if len(a.Stdout) != maxOutput || !strings.Contains(a.Stderr, "1048576 bytes of output") {
		t.Errorf("%d bytes, %q", len(a.Stdout), a.Stderr)
	}
}

// TestStateful uses one session for a hint. The profile of the request must agree.
func TestStateful(t *testing.T) {
	x := newFixture(t)
	x.node.program = func(open protocol.ChannelOpen, files map[string]string) (string, string,
		protocol.Exit,
	) {
		files[folder+"/count"] += "x"
		return files[folder+"/count"], "", exited(0)
	}
	body := map[string]any{"lang": "py", "code": "x", "runtime_session_hint": "conversation 1"}
	first := x.exec("t/ada", body, headerExpected, profileStateful)
	second := x.exec("t/ada", body)
	if first.Stdout != "x" || second.Stdout != "xx" || first.RuntimeStatus != "new" ||
		second.RuntimeStatus != "reused" || first.Runtime != second.Runtime ||
		!store.ValidID(first.Runtime) {
		t.Errorf("%+v\n%+v", first, second)
	}
	if m := second.Files[0].Modified; m == nil || m.ID != first.Files[0].ID {
		t.Errorf("%+v", second.Files)
	}
	// A reference to the present state leaves the file, one to an older state restores it.
	body["files"] = []any{map[string]any{
		"id": second.Files[0].ID, "storage_session_id": second.Storage, "name": "count",
	}}
	if a := x.exec("t/ada", body); a.Stdout != "xxx" {
		t.Errorf("%+v", a)
	}
	body["files"] = []any{map[string]any{
		"id": first.Files[0].ID, "storage_session_id": first.Storage, "name": "count",
	}}
	if a := x.exec("t/ada", body); a.Stdout != "xx" {
		t.Errorf("%+v", a)
	}
	delete(body, "files")
	for name, try := range map[string]struct{ hint, expected string }{
		"a hint":       {"conversation 1", profileDefault},
		"no hint":      {"", profileStateful},
		"no such name": {"", "other"},
	} {
		body["runtime_session_hint"] = try.hint
		if code, e := x.refused("t/ada", body, headerExpected, try.expected); code !=
			http.StatusConflict || e.Error != errorProfile {
			t.Errorf("%s: %d %+v", name, code, e)
		}
	}
	body["runtime_session_hint"] = "conversation 2"
	if a := x.exec("t/ada", body); a.Stdout != "x" || a.Runtime == first.Runtime {
		t.Errorf("another conversation: %+v", a)
	}
	body["runtime_session_hint"] = "conversation 1"
	if a := x.exec("t/bob", body); a.Stdout != "x" || a.Runtime == first.Runtime {
		t.Errorf("another user: %+v", a)
	}
}

// TestMissingLanguage: the model learns that a language is not there. The status is 200.
func TestMissingLanguage(t *testing.T) {
	for _, at := range []string{protocol.OpSessionCreate, protocol.OpChannelOpen} {
		x := newFixture(t)
		x.node.refuse = func(op string) error {
			if op != at {
				return nil
			}
			err := fault.New(fault.NotFound, "node", "there is no language rust")
			err.Field = "language"
			return err
		}
		a := x.exec("ada", map[string]any{"lang": "rs", "code": "fn main() {}"})
		if !strings.Contains(a.Stderr, "rs (rust) is not installed") || a.Status != statusError {
			t.Errorf("%s: %+v", at, a)
		}
	}
	x := newFixture(t)
	if code, e := x.refused("ada", map[string]any{"lang": "cobol", "code": "x"}); code !=
		http.StatusBadRequest || e.Field != "lang" {
		t.Errorf("%d %+v", code, e)
	}
}

// TestTemplateOfLanguage: a run in a language that the server's image lacks has the template of the
// tenant that has the language.
func TestTemplateOfLanguage(t *testing.T) {
	x := newFixture(t)
	tried := 0
	x.node.refuse = func(op string) error {
		if op != protocol.OpSessionCreate {
			return nil
		}
		if tried++; tried > 1 {
			return nil
		}
		err := fault.New(fault.NotFound, "node", "there is no language rust")
		err.Field = "language"
		return err
	}
	x.node.templates.Templates = []protocol.Template{
		{Name: "broken", State: "failed", Languages: []string{"rust"}},
		{Name: "other", State: "ready", Languages: []string{"r"}},
		{Name: "programs", State: "ready", Languages: []string{"c", "rust"}},
	}
	x.node.program = func(open protocol.ChannelOpen, _ map[string]string) (string, string,
		protocol.Exit,
	) {
		if got := x.node.sessions[open.Session].create; got.Template != "programs" ||
			got.Language != "rust" {
			t.Errorf("%+v", got)
		}
		return "1\n", "", exited(0)
	}
	if a := x.exec("ada", map[string]any{"lang": "rs", "code": "fn main() {}"}); a.Stdout != "1\n" {
		t.Errorf("%+v", a)
	}
}

// TestTimeout ends a program that takes too long.
func TestTimeout(t *testing.T) {
	x := newFixture(t)
	x.node.program = func(protocol.ChannelOpen, map[string]string) (string, string, protocol.Exit) {
		return "", "", protocol.Exit{Reason: "never"}
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-x.node.closed
	}()
	ctx, disconnect := context.WithCancel(context.Background())
	r := httptest.NewRequest("POST", Prefix+"/exec",
		strings.NewReader(`{"lang":"py","code":"x","timeout":100}`)).WithContext(ctx)
	r.Header.Set("X-Api-Key", "ada")
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.mux.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-closed // the program was ended for its timeout
	disconnect()
	<-done
}

// TestEnds checks the answer for each end of a program.
func TestEnds(t *testing.T) {
	for want, try := range map[string]struct {
		exit    protocol.Exit
		expired bool
	}{
		statusOK:      {exit: exited(0)},
		statusError:   {exit: exited(1)},
		statusKilled:  {exit: protocol.Exit{Code: 137, Signal: "SIGKILL", Reason: reasonMemory}},
		statusTimeout: {exit: protocol.Exit{Code: 143, Signal: "SIGTERM"}, expired: true},
	} {
		var o outcome
		o.finish(&try.exit, nil, try.expired, 0)
		if o.status != want || *o.code != try.exit.Code || o.signal != try.exit.Signal || o.lost {
			t.Errorf("%+v is %+v, should be %s", try.exit, o, want)
		}
	}
	var lost outcome
	lost.finish(nil, fault.New(fault.SandboxLost, "x", "gone"), false, 0)
	if lost.status != statusKilled || !lost.lost || lost.code != nil || lost.message == "" {
		t.Errorf("%+v", lost)
	}
}
