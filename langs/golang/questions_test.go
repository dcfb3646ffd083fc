package golang_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// about is a question about the code of a notebook.
type about struct {
	Kind  string   `json:"kind,omitempty"`
	Cells []string `json:"cells"`
	At    int      `json:"at"`
	New   string   `json:"new,omitempty"`
}

// ask sends a question about the last of the cells, with the cursor at its end, and returns its id.
func (d *driver) ask(op, kind string, cells ...string) uint64 {
	d.t.Helper()
	body, err := json.Marshal(about{Kind: kind, Cells: cells, At: len(cells) - 1})
	if err != nil {
		d.t.Fatal(err)
	}
	code := cells[len(cells)-1]
	d.id++
	d.send(kernel.Request{Op: op, ID: d.id, Code: code, Cursor: len([]rune(code)), About: body})
	return d.id
}

// answer returns the answer to a question as text.
func answer(r message.Reply) string {
	if r.Status == "error" {
		return "error: " + r.EValue
	}
	if !r.Found {
		return "none"
	}
	return string(r.Data["application/json"])
}

func testQuestions(t *testing.T, dir string) {
	d := start(t, dir)
	d.run("type plot struct{ width, height int }\nfunc area(w, h int) plot { return plot{w, h} }", nil)
	r := d.reply(d.ask("complete", "", "p := area(1, 2)", "p."))
	if len(r.Matches) != 2 || r.Matches[0].Text != "height" {
		t.Errorf("completions: %+v", r)
	}
	if got := answer(d.reply(d.ask("inspect", "problems", "var s string = area(1, 2)"))); !strings.Contains(got, "cannot use area(1, 2)") {
		t.Error(got)
	}
	if got := answer(d.reply(d.ask("inspect", "signature", "area(1, "))); !strings.Contains(got, `"active":1`) {
		t.Error(got)
	}
	// A cell that does not end, and one that does not compile soon, hold no question up.
	d.id++
	busy := d.id
	d.send(kernel.Request{Op: "execute", ID: busy, Cell: uint32(busy), Code: "fmt.Println(1)\nfor {\n}"})
	for f, ok := d.next(); ok && f.Type != frame.Stdout; f, ok = d.next() {
	}
	if got := answer(d.reply(d.ask("inspect", "definition", "x := 1", "x"))); got != `{"cell":0,"line":1,"column":0}` {
		t.Error(got)
	}
	d.send(kernel.Request{Op: "interrupt", Cell: uint32(busy)})
	syscall.Kill(d.cmd.Process.Pid, syscall.SIGINT)
	if r := d.reply(busy); r.EName != "Interrupted" {
		t.Errorf("%+v", r)
	}
	// The code of a question is not run, not even when it is checked for another.
	if got := answer(d.reply(d.ask("inspect", "problems", "os.Exit(3)", "area(1, 2)"))); got != `{"problems":[]}` {
		t.Error(got)
	}
	for _, wrong := range []string{`7`, `{"at":-1}`, `{"kind":"names","at":9}`, `{"kind":"nothing"}`, `{"kind":"names"}`, `null`} {
		d.id++
		d.send(kernel.Request{Op: "inspect", ID: d.id, Code: "a", Cursor: 1, About: json.RawMessage(wrong)})
		if r := d.reply(d.id); r.Status != "ok" || r.Found {
			t.Errorf("%s: %+v", wrong, r)
		}
	}
	measureQuestions(t, d)
}

// measureQuestions logs how long answers take in a notebook of 30 cells.
func measureQuestions(t *testing.T, d *driver) {
	cells := []string{}
	for i := range 30 {
		cells = append(cells, fmt.Sprintf("func f%d(a int, b string) (int, error) { return a + %d, fmt.Errorf(\"x %%s\", b) }\nv%d, err := f%d(1, \"a\")", i, i, i, i))
	}
	for _, q := range [][2]string{
		{"complete", ""},
		{"inspect", "problems"},
		{"inspect", "describe"},
		{"inspect", "signature"},
		{"inspect", "definition"},
		{"inspect", "names"},
		{"inspect", "format"},
	} {
		var times []time.Duration
		for i := range 21 {
			last := fmt.Sprintf("x%d := strings.Repeat(\"a\", v3)\nf5(", i)
			if q[1] != "signature" {
				last = fmt.Sprintf("x%d := f5\nx%d", i, i)
			}
			began := time.Now()
			d.reply(d.ask(q[0], q[1], append(cells, last)...))
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		t.Logf("%s %s: median %v, first or slowest %v", q[0], q[1], times[10], times[20])
	}
}
