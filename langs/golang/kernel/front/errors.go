package front

import (
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
)

// maxErrors is the largest number of reported errors of one cell, as in go build.
const maxErrors = 10

// Errors is the reason why a cell cannot be run. No part of the cell has an effect.
type Errors struct {
	// Name is SyntaxError or CompileError.
	Name string
	List []Error
	// Code is the text that the positions refer to.
	Code string
}

// Error is one of the errors.
type Error struct {
	File      string
	Line, Col int
	Msg       string
}

func (e Error) String() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
}

func (e *Errors) Error() string { return e.List[0].String() }

// Traceback shows each error with its line and a mark below its column.
func (e *Errors) Traceback() []string {
	var out []string
	for _, x := range e.List {
		out = append(out, x.String())
		if text, ok := lineText(e.Code, x.Line); ok && x.Line > 0 {
			out = append(out, "    "+text, "    "+under(text, x.Col)+"^")
		}
	}
	return out
}

// under returns spaces as wide as the text before a column, in bytes and from 1.
func under(text string, col int) string {
	var b strings.Builder
	for i, r := range text {
		if i >= col-1 {
			break
		}
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func (e *Errors) add(p token.Position, msg string) {
	x := Error{p.Filename, p.Line, p.Column, msg}
	// A position after the end is shown at the end.
	if lines := strings.Split(e.Code, "\n"); x.Line > len(lines) {
		x.Line, x.Col = len(lines), len(lines[len(lines)-1])+1
	}
	for _, y := range e.List {
		if y.Line == x.Line && (y.Msg == x.Msg || e.Name == "SyntaxError") {
			return
		}
	}
	if len(e.List) < maxErrors {
		e.List = append(e.List, x)
	}
}

// syntax adds the parser's errors in a piece.
func (e *Errors) syntax(err error) {
	list, ok := err.(scanner.ErrorList)
	if !ok {
		e.add(token.Position{}, err.Error())
		return
	}
	for _, x := range list {
		e.add(x.Pos, x.Msg)
	}
}

var (
	qualified = regexp.MustCompile(`"?cells/(\d+)"?\.(\w+)`)
	aliased   = regexp.MustCompile(`\bc\d+__\.`)
	ours      = regexp.MustCompile(`\bmain\.`)
)

// typeError adds an error of the type checker. It explains variables that a cell keeps.
func (d *draft) typeError(err types.Error) {
	msg := d.s.plain(err.Msg)
	name, missing := strings.CutPrefix(msg, "undefined: ")
	if !missing {
		name, missing = strings.CutSuffix(msg, " (type) is not an expression")
	}
	if missing {
		msg += cmp.Or(kept(d.u.File, name, d.local), d.s.local[name])
	}
	d.errs.add(d.s.fset.Position(err.Pos), msg)
}

// kept says why a variable of a cell is not one of the session; "" if it is one.
func kept(file, name string, local map[string]string) string {
	why := local[name]
	if why == "" {
		return ""
	}
	return fmt.Sprintf("; the variable %s of %s is not one of the session, because %s", name, file, why)
}

// plain replaces internal names in a message: types of other cells have only their name, or also
// their cell if two types have the same name.
func (s *Session) plain(msg string) string {
	names := map[string]map[string]bool{}
	for _, m := range qualified.FindAllStringSubmatch(msg, -1) {
		if names[m[2]] == nil {
			names[m[2]] = map[string]bool{}
		}
		names[m[2]][m[1]] = true
	}
	msg = qualified.ReplaceAllStringFunc(msg, func(t string) string {
		m := qualified.FindStringSubmatch(t)
		if len(names[m[2]]) < 2 {
			return m[2]
		}
		seq, _ := strconv.Atoi(m[1])
		if u := s.units[Path(seq)]; u != nil {
			return m[2] + " (of " + u.File + ")"
		}
		return m[2] + " (of this cell)"
	})
	return ours.ReplaceAllString(aliased.ReplaceAllString(msg, ""), "")
}

// CompilerErrors parses the output of the compiler, which may find further errors.
func CompilerErrors(output, code string) *Errors {
	e := &Errors{Name: "CompileError", Code: code}
	line := regexp.MustCompile(`^([^:\s]+):(\d+):(\d+): (.*)$`)
	for _, l := range strings.Split(strings.TrimSpace(output), "\n") {
		if m := line.FindStringSubmatch(l); m != nil {
			n, _ := strconv.Atoi(m[2])
			c, _ := strconv.Atoi(m[3])
			e.add(token.Position{Filename: m[1], Line: n, Column: c}, m[4])
		} else if l != "" {
			e.add(token.Position{}, l)
		}
	}
	if len(e.List) == 0 {
		e.add(token.Position{}, "the compiler failed without saying why")
	}
	return e
}
