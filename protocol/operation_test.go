package protocol

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fields returns the JSON names of a parameter type's fields.
func fields(v any) []string {
	var names []string
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for f := range t.Fields() {
			if f.Anonymous {
				visit(f.Type)
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	if v != nil {
		visit(reflect.TypeOf(v))
	}
	return names
}

// TestOperationsHasEveryConstant fails when an operation's name is declared and
// has no row, or has two.
func TestOperationsHasEveryConstant(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s+Op\w+\s+= "([\w.]+)"`).FindAllSubmatch(src,
			-1) {
			declared[string(m[1])] = true
		}
	}
	if len(declared) < 70 {
		t.Fatalf("found %d declared operations, expected more than 70", len(declared))
	}
	for _, o := range Operations() {
		if !declared[o.Name] {
			t.Errorf("%s has two rows, or no constant", o.Name)
		}
		delete(declared, o.Name)
	}
	for name := range declared {
		t.Errorf("%s has no row in the operation table", name)
	}
}

// TestOperationsAreConsistent checks the rows against the rules that the fields
// of Operation state.
func TestOperationsAreConsistent(t *testing.T) {
	granted := []Scope{
		ScopeRead, ScopeWrite, ScopeManage, ScopeRun, ScopeKeys, ScopeMetrics, ScopeAdmin,
	}
	for _, o := range Operations() {
		params := fields(o.Params)
		if o.Summary == "" || strings.HasSuffix(o.Summary, ".") {
			t.Errorf("%s needs a summary, one sentence without the full stop", o.Name)
		}
		switch o.Transport {
		case Internal:
			if o.Scope != ScopeNode || len(o.REST) > 0 {
				t.Errorf("%s is internal, and has the scope %s and %d routes", o.Name, o.Scope,
					len(o.REST))
			}
		case HTTPOnly:
			if len(o.REST) == 0 {
				t.Errorf("%s is for HTTP alone and has no route", o.Name)
			}
		}
		if o.Transport != Internal && o.Scope != ScopeAny && !slices.Contains(granted, o.Scope) {
			t.Errorf("%s needs the scope %q, which nobody has", o.Name, o.Scope)
		}
		if o.Effects >= Writes && (o.Scope == ScopeRead || o.Scope == ScopeAny ||
			o.Scope == ScopeMetrics) {
			t.Errorf("%s writes and needs the scope %s only", o.Name, o.Scope)
		}
		if o.Creates && (o.Transport == Internal || o.OneSession) {
			t.Errorf("%s creates something, and is internal or open to share links", o.Name)
		}
		if o.OneSession && o.Effects != Reads && o.Transport != Internal {
			t.Errorf("%s writes and is open to share links", o.Name)
		}
		if o.Order == PerChannel && o.Channel != NamesChannel {
			t.Errorf("%s is ordered by channel and names none", o.Name)
		}
		switch o.Target {
		case TargetNone:
			t.Errorf("%s has no target", o.Name)
		case SessionNode:
			if o.Channel != NamesChannel && !slices.Contains(params, "session") {
				t.Errorf("%s goes to its session's node, and its parameters name no session",
					o.Name)
			}
		case ResourceNode:
			names := []string{"name", "snapshot", "notebook"}
			if len(params) == 0 || !slices.Contains(names, params[0]) {
				t.Errorf("%s goes to its resource's node, and its parameters name none", o.Name)
			}
		case AtGateway:
			if o.Transport != HTTPOnly || o.ID == "" {
				t.Errorf("%s is performed by the gateway, and is not HTTPOnly or has no ID", o.Name)
			}
		case AllNodes:
			if o.Effects != Reads {
				t.Errorf("%s goes to all nodes and writes", o.Name)
			}
		}
		checkRoutes(t, o, params)
	}
}

// checkRoutes checks that REST can be derived from an operation's routes.
func checkRoutes(t *testing.T, o Operation, params []string) {
	t.Helper()
	for _, r := range o.REST {
		if o.Target == AtGateway && !r.Custom {
			t.Errorf("%s is performed by the gateway, and %s is not Custom", o.Name, r.Path)
		}
		if !r.Custom && (r.Events != nil || r.Form) {
			t.Errorf("%s: only a Custom route has events or a form: %s", o.Name, r.Path)
		}
		if r.Custom && o.Target != AtGateway {
			continue
		}
		if o.ID == "" {
			t.Errorf("%s has the route %s and no ID", o.Name, r.Path)
		}
		for _, m := range regexp.MustCompile(`{(\w+)}`).FindAllStringSubmatch(r.Path, -1) {
			if !slices.Contains(params, m[1]) {
				t.Errorf("%s: %s names %s, which is no field of its parameters", o.Name, r.Path,
					m[1])
			}
		}
		if r.Method == http.MethodGet && (o.Effects != Reads || r.Body != NoBody) {
			t.Errorf("%s writes or takes a body, and %s %s is a GET", o.Name, r.Method, r.Path)
		}
	}
}
