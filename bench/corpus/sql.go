package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

//go:embed sql_reference.py
var sqlReference string

// sqlCorpus has the tests of SQLite that consist of statements and what they return.
func sqlCorpus() corpus {
	return corpus{language: "sql", read: readSQL, prepare: prepareSQL}
}

func readSQL(dir string) ([]*program, error) {
	return readAll(dir, func(name, _, text string) []*program { return readTests(name, text) }, ".test")
}

// readTests reads a file of tests. reset_db begins another program.
func readTests(name, text string) []*program {
	p := &program{name: name, fresh: true}
	list := []*program{p}
	for _, words := range commands(text) {
		n := len(words)
		switch {
		case words[0] == "reset_db":
			p = &program{name: fmt.Sprintf("%s/%d", name, len(list)), fresh: true}
			list = append(list, p)
		case words[0] == "execsql" && n == 2:
			p.cells = append(p.cells, &cell{name: "execsql", code: words[1], skip: "prepares"})
		case words[0] == "do_execsql_test" && n == 4, words[0] == "do_execsql_test" && n == 3:
			want := ""
			if n == 4 {
				want = words[3]
			}
			p.cells = append(p.cells, sqlCell(words[1], words[2], want))
		case words[0] == "do_catchsql_test" && n == 4:
			p.cells = append(p.cells, catchCell(words[1], words[2], words[3]))
		case words[0] == "do_test" && n == 4:
			inner := commands(words[2])
			if len(inner) == 1 && len(inner[0]) == 2 && inner[0][0] == "execsql" {
				p.cells = append(p.cells, sqlCell(words[1], inner[0][1], words[3]))
			}
		}
	}
	var some []*program
	for _, p := range list {
		if len(p.cells) > 0 {
			some = append(some, p)
		}
	}
	return some
}

// commands splits a script of Tcl. It reads words in braces and plain words, and leaves out a
// command with other ones.
func commands(text string) [][]string {
	var list [][]string
	var words []string
	bad := false
	end := func() {
		if len(words) > 0 && !bad {
			list = append(list, words)
		}
		words, bad = nil, false
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\n' || c == ';':
			end()
			i++
		case c == '\\' && i+1 < len(text) && text[i+1] == '\n':
			i += 2
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '#' && len(words) == 0:
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '{':
			n := braces(text[i:])
			words = append(words, text[i+1:i+n-1])
			i += n
		case c == '"' || c == '[' || c == '$':
			bad = true
			i += quoted(text[i:])
		default:
			n := strings.IndexAny(text[i:], " \t\n;")
			if n < 0 {
				n = len(text) - i
			}
			words = append(words, text[i:i+n])
			bad = bad || strings.ContainsAny(text[i:i+n], "$[")
			i += n
		}
	}
	end()
	return list
}

// braces returns the length of a word in braces.
func braces(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// quoted returns the length of a word that Tcl would substitute.
func quoted(text string) int {
	closing := map[byte]byte{'"': '"', '[': ']'}[text[0]]
	for i := 1; i < len(text); i++ {
		if text[i] == '\\' {
			i++
		} else if closing != 0 && text[i] == closing || closing == 0 && text[i] <= ' ' {
			return i + 1
		}
	}
	return len(text)
}

// listOf returns the elements of a list of Tcl.
func listOf(text string) []string {
	var all []string
	for _, c := range commands(strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), ";", "\x00")) {
		for _, w := range c {
			all = append(all, strings.ReplaceAll(w, "\x00", ";"))
		}
	}
	return all
}

func sqlCell(name, code, want string) *cell {
	c := &cell{name: name, code: code}
	values := listOf(want)
	c.check = func(o outcome) string {
		if o.failed {
			return o.name + ": " + o.value
		}
		got, err := rowsOf(o.data)
		if err != nil {
			return err.Error()
		}
		if !sameValues(values, got) {
			return wanted(strings.Join(values, " | "), strings.Join(got, " | "))
		}
		return ""
	}
	if strings.HasPrefix(strings.TrimSpace(want), "/") {
		c.skip, c.code = "compares with a pattern", ""
	}
	return c
}

func catchCell(name, code, want string) *cell {
	values := listOf(want)
	if len(values) != 2 {
		return &cell{name: name, skip: "compares with a pattern"}
	}
	if values[0] == "0" {
		return sqlCell(name, code, values[1])
	}
	return &cell{name: name, code: code, check: func(o outcome) string {
		if !o.failed || !strings.Contains(o.value, values[1]) {
			return wanted(values[1], o.String())
		}
		return ""
	}}
}

// rowsOf returns the values of tables, row by row.
func rowsOf(tables []string) ([]string, error) {
	var all []string
	for _, raw := range tables {
		var t struct {
			Schema struct {
				Fields []struct{ Name string }
			}
			Data []map[string]any
		}
		d := json.NewDecoder(strings.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&t); err != nil {
			return nil, err
		}
		for _, row := range t.Data {
			for _, f := range t.Schema.Fields {
				if f.Name == "index" {
					continue
				}
				v := row[f.Name]
				if v == nil {
					v = ""
				}
				all = append(all, fmt.Sprint(v))
			}
		}
	}
	return all, nil
}

// sameValues compares numbers as numbers, and other values as text without outer white space.
func sameValues(want, got []string) bool {
	if len(want) != len(got) {
		return false
	}
	space := regexp.MustCompile(`\s+`)
	for i := range want {
		w, errW := strconv.ParseFloat(want[i], 64)
		g, errG := strconv.ParseFloat(got[i], 64)
		if errW == nil && errG == nil && fmt.Sprintf("%.12g", w) == fmt.Sprintf("%.12g", g) {
			continue
		}
		if strings.TrimSpace(space.ReplaceAllString(want[i], " ")) !=
			strings.TrimSpace(space.ReplaceAllString(got[i], " ")) {
			return false
		}
	}
	return true
}

// prepareSQL runs the cells in Python's SQLite. A cell whose outcome differs there from the test's
// needs the test's own build of SQLite, or statements that the harness has left out.
func prepareSQL(ctx context.Context, b *box, p *program) error {
	var codes []string
	for _, c := range p.cells {
		codes = append(codes, c.code)
	}
	text, err := json.Marshal(codes)
	if err != nil {
		return err
	}
	if err := b.write(ctx, "statements", string(text)); err != nil {
		return err
	}
	if err := b.write(ctx, ".reference.py", sqlReference); err != nil {
		return err
	}
	out, code, err := b.run(ctx, "bash", "-c",
		"rm -f test*.db* *.db; timeout 60 python3 .reference.py statements; rm -f test*.db* *.db")
	if err != nil {
		return err
	}
	var list []struct {
		Rows  []string
		Error string
	}
	if code != 0 || json.Unmarshal([]byte(out), &list) != nil || len(list) != len(p.cells) {
		for _, c := range p.cells {
			c.skip, c.code = "fails without a kernel", ""
		}
		return nil
	}
	for i, c := range p.cells {
		if c.skip != "" || c.code == "" {
			continue
		}
		o := outcome{failed: list[i].Error != "", value: list[i].Error}
		if o.data, err = tableOf(list[i].Rows); err != nil {
			return err
		}
		if c.check(o) != "" {
			c.skip = "fails without a kernel"
		}
	}
	return nil
}

// tableOf returns values as a table with one column.
func tableOf(values []string) ([]string, error) {
	var rows []map[string]string
	for _, v := range values {
		rows = append(rows, map[string]string{"v": v})
	}
	raw, err := json.Marshal(map[string]any{
		"schema": map[string]any{"fields": []map[string]string{{"name": "v"}}}, "data": rows,
	})
	return []string{string(raw)}, err
}
