package e2b

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/golden"
)

// page has the table of the methods below the line that ends with marker.
const (
	page   = "../../docs/reference/e2b.md"
	marker = "## Methods\n"
)

// plan returns all checks of the current SDK, and the SDK's methods, without running a check.
func plan(t *testing.T) ([]planned, []string) {
	t.Helper()
	var found line
	args := append([]string{"checks/run.mjs", "--plan"}, strings.Fields(suites)...)
	program(t, deadline(t), args, nil, func(l line) string {
		found = l
		return ""
	})
	if len(found.Plan) == 0 {
		t.Fatal("the checks have no plan")
	}
	return found.Plan, found.Methods
}

// TestEnoughChecks counts the checks that are expected to pass.
func TestEnoughChecks(t *testing.T) {
	all, _ := plan(t)
	waits := pending(t)
	n := 0
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.Name] {
			t.Errorf("two checks have the name %s", p.Name)
		}
		seen[p.Name] = true
		if waits[p.Name] == "" {
			n++
		}
	}
	if n < 120 {
		t.Errorf("%d checks pass, fewer than 120", n)
	}
	for name := range waits {
		short := name
		for _, r := range runs() {
			short = strings.TrimPrefix(short, r.name+"/")
		}
		if !seen[short] && !strings.HasPrefix(short, "older") && !strings.HasPrefix(short, "fault") {
			t.Errorf("pending.json has %s, which is no check", name)
		}
	}
}

// TestEachMethodHasCheck fails for a public method of the SDK that no check covers.
func TestEachMethodHasCheck(t *testing.T) {
	all, methods := plan(t)
	covered := map[string]bool{}
	for _, p := range all {
		for _, c := range p.Covers {
			method, _, _ := strings.Cut(c, "(")
			covered[method] = true
		}
	}
	for _, m := range methods {
		if !covered[m] {
			t.Errorf("no check covers %s", m)
		}
		delete(covered, m)
	}
	for m := range covered {
		t.Errorf("a check covers %s, which the SDK does not have", m)
	}
}

// A row has the results of the checks of a method.
type row struct {
	works   map[string]bool // options that work; "" is the method itself
	refused map[string]string
	pending map[string]string
}

// TestTable compares the table of the methods in the reference with the checks.
func TestTable(t *testing.T) {
	all, methods := plan(t)
	waits := pending(t)
	rows := map[string]*row{}
	for _, m := range methods {
		rows[m] = &row{map[string]bool{}, map[string]string{}, map[string]string{}}
	}
	for _, p := range all {
		for _, c := range p.Covers {
			method, options, _ := strings.Cut(strings.TrimSuffix(c, ")"), "(")
			if r := rows[method]; r != nil {
				r.add(p, waits[p.Name], options)
			}
		}
	}
	var table strings.Builder
	table.WriteString("\n| method | works | options |\n|---|---|---|\n")
	for _, m := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&table, "| `%s` | %s |\n", strings.Replace(m, "#", "().", 1), rows[m])
	}
	text, err := os.ReadFile(page)
	check(t, err)
	head, _, found := strings.Cut(string(text), marker)
	if !found {
		t.Fatalf("%s has no heading %q", page, marker)
	}
	golden.Page(t, page, head+marker+table.String())
}

// add adds the result of a check. A check without options stands for the method itself.
func (r *row) add(p planned, waits, options string) {
	for option := range strings.SplitSeq(options, ", ") {
		switch {
		case p.Refuses != "":
			r.refused[option] = p.Refuses
		case waits != "":
			r.pending[option] = waits
		default:
			r.works[option], r.works[""] = true, true
		}
	}
}

// String returns the cells of the table.
func (r *row) String() string {
	works := "yes"
	if !r.works[""] {
		works = "no"
		for _, why := range slices.Sorted(maps.Values(r.refused)) {
			works = "no: " + why
		}
		for _, why := range slices.Sorted(maps.Values(r.pending)) {
			works = "not yet: " + why
		}
	}
	var cells []string
	if options := slices.Sorted(maps.Keys(r.works)); len(options) > 1 {
		cells = append(cells, "`"+strings.Join(options[1:], "`, `")+"`")
	}
	for _, not := range []map[string]string{r.refused, r.pending} {
		for _, option := range slices.Sorted(maps.Keys(not)) {
			if option != "" && works == "yes" {
				cells = append(cells, fmt.Sprintf("not `%s`: %s", option, not[option]))
			}
		}
	}
	return works + " | " + strings.Join(cells, "; ")
}
