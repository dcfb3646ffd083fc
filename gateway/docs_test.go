package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestOpenAPIMatchesRoutes compares the OpenAPI document with the route table, in both directions.
func TestOpenAPIMatchesRoutes(t *testing.T) {
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
			}
		}
	}
	g, err := New(Config{}, Remote(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(g.openAPIDocument, &doc); err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for path, item := range doc.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var op struct {
				Description string
				Security    *[]any
			}
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			access := string(protocol.ScopeAny)
			if op.Security != nil && len(*op.Security) == 0 {
				access = string(protocol.ScopeOpen)
			}
			if m := regexp.MustCompile("scope `([^`]+)`").FindStringSubmatch(
				op.Description); m != nil {
				access = m[1]
			}
			documented[strings.ToUpper(method)+" "+path+" "+access] = true
		}
	}
	for _, r := range g.routes {
		// Another protocol has its own documentation.
		if r.ownHost || r.match != nil || r.writeError != nil {
			continue
		}
		path := regexp.MustCompile(`:(\w+)`).ReplaceAllString(strings.ReplaceAll(r.Path, "*",
			"{path}"), "{$1}")
		key := r.Method + " " + path + " " + string(r.Access)
		if !documented[key] {
			t.Errorf("openapi.json lacks %s", key)
		}
		delete(documented, key)
	}
	for key := range documented {
		t.Errorf("no route is %s", key)
	}
	var kinds []string
	for _, row := range fault.Table() {
		kinds = append(kinds, string(row.Kind))
	}
	var kind struct{ Enum []string }
	if err := json.Unmarshal(doc.Components.Schemas["Fault"].Properties["kind"],
		&kind); err != nil || !slices.Equal(kind.Enum, kinds) {
		t.Errorf("the kinds are %v, documented are %v (%v)", kinds, kind.Enum, err)
	}
	refs := regexp.MustCompile(`#/components/schemas/(\w+)`)
	for _, m := range refs.FindAllSubmatch(g.openAPIDocument, -1) {
		if _, ok := doc.Components.Schemas[string(m[1])]; !ok {
			t.Errorf("there is no schema %s", m[1])
		}
	}
}

// TestPageHasErrorTable compares the page's table with fault.Table.
func TestPageHasErrorTable(t *testing.T) {
	var want strings.Builder
	for _, r := range fault.Table() {
		fmt.Fprintf(&want, "| `%s` | %d | %d | %d | %s |\n", r.Kind, r.HTTP, r.Close, r.Exit,
			r.Advice)
	}
	if !strings.Contains(page(t), want.String()) {
		t.Errorf("docs/protocol.md should have exactly:\n%s", want.String())
	}
}

// TestPageHasEveryOp compares the page's rows with the operations of the WebSocket.
func TestPageHasEveryOp(t *testing.T) {
	text := page(t)
	marks := map[protocol.Scope]string{
		protocol.ScopeRead: "| r |", protocol.ScopeWrite: "| w |", protocol.ScopeManage: "| m |",
		protocol.ScopeMetrics: "| `metrics` |", protocol.ScopeAdmin: "| `admin` |",
		protocol.ScopeAny: "| |",
	}
	for _, o := range protocol.Operations() {
		if o.Transport != protocol.WebSocket {
			continue
		}
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(o.Name) + "`.*$").FindString(text)
		if mark := marks[o.Scope]; mark == "" || row == "" || !strings.Contains(row, mark) {
			t.Errorf("the page's row of %s is %q and should have %q", o.Name, row, mark)
		}
	}
}

// TestPageExamples parses the page's bytes and encodes them again.
func TestPageExamples(t *testing.T) {
	text := page(t)
	example := func(name string) []byte {
		_, rest, ok := strings.Cut(text, "```hex "+name+"\n")
		body, _, _ := strings.Cut(rest, "```")
		b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "").Replace(body))
		if !ok || err != nil {
			t.Fatalf("example %s: %v", name, err)
		}
		return b
	}
	u64 := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	rec := frame.Record{
		Kind: frame.KindStdout, Cell: 3, Time: 1_700_000_000_000_000,
		Payload: []byte("hello"),
	}
	for name, want := range map[string]frame.Frame{
		"input":   {Type: frame.Input, Channel: 7, Body: append(u64(1), "hi\n"...)},
		"records": {Type: frame.Records, Channel: 7, Body: frame.AppendRecord(u64(4096), rec)},
		"ack":     {Type: frame.Ack, Channel: 7, Body: u64(4096 + uint64(rec.Size()))},
	} {
		if got, want := example(name), frame.AppendMessage(nil,
			want); string(got) != string(want) {
			t.Errorf("%s: the page has % x, it should be % x", name, got, want)
		}
	}
}
