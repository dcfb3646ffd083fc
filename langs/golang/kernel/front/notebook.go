package front

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxCells and maxNotebook limit the cells of a question, in number and in bytes.
	maxCells    = 400
	maxNotebook = 1 << 20
	// maxPlaces is the largest number of places of a name.
	maxPlaces = 10_000
)

// Notebook answers questions of an editor about the cells of a notebook. It checks the cells as the
// kernel would, in their order, in a session of its own. It runs nothing. It is not safe for
// concurrent use.
type Notebook struct {
	base  *Session
	files *token.FileSet // has the positions in imported packages
	chain []*checked     // the cells that the last question has checked, in order
	seq   int
}

// Cells are the cells of a question.
type Cells struct {
	// Earlier have been executed, and may not be in the notebook any longer.
	Earlier []string
	// Codes are the cells of the notebook in order. At is the place of the one that is edited.
	Codes []string
	At    int
}

// checked is a cell that was checked after the cells before it.
type checked struct {
	code, file string
	after      *Session // the session with this cell
	errs       []Error
	draft      *draft
	names      map[string]bool // the names that it declares, also if it has errors
	places     []place
	files      []*token.File
}

// NewNotebook returns a Notebook. files has the positions of the importer's packages. The other
// parameters are those of NewSession.
func NewNotebook(packages types.Importer, files *token.FileSet, std map[string]string,
	support string,
) (*Notebook, error) {
	s, err := NewSession(packages, std, support)
	if err != nil {
		return nil, err
	}
	return &Notebook{base: s, files: files}, nil
}

// clone returns a session with the same declarations, which changes independently.
func (s *Session) clone() *Session {
	c := *s
	c.imports, c.units = maps.Clone(s.imports), maps.Clone(s.units)
	c.latest, c.local = maps.Clone(s.latest), maps.Clone(s.local)
	c.order, c.dots, c.scratch = slices.Clone(s.order), slices.Clone(s.dots), nil
	c.decls = make(map[string]*decl, len(s.decls))
	for name, d := range s.decls {
		e := *d
		e.methods = slices.Clone(d.methods)
		c.decls[name] = &e
	}
	return &c
}

// fits reports whether the cells are within the limits.
func (c Cells) fits() bool {
	n := 0
	for _, code := range slices.Concat(c.Earlier, c.Codes) {
		n += len(code)
	}
	return c.At >= 0 && c.At < len(c.Codes) && n <= maxNotebook &&
		len(c.Earlier)+len(c.Codes) <= maxCells
}

// list returns the cells to check, in order, and the index of the first one of the notebook. Cells
// that were executed and are in the notebook count once.
func (c Cells) list() (codes []string, first int) {
	for _, e := range c.Earlier {
		if !slices.Contains(c.Codes, e) {
			codes = append(codes, e)
		}
	}
	return append(codes, c.Codes...), len(codes)
}

// check checks all cells, and returns those of the notebook.
func (n *Notebook) check(c Cells) []*checked {
	codes, first := c.list()
	n.follow(codes)
	n.drop(len(codes))
	return n.chain[first:]
}

// before returns the session that the edited cell finds, and the cells before it.
func (n *Notebook) before(c Cells) (*Session, []*checked) {
	codes, first := c.list()
	codes = codes[:first+c.At]
	n.follow(codes)
	s := n.base
	if len(codes) > 0 {
		s = n.chain[len(codes)-1].after
	}
	return s.clone(), n.chain[:len(codes)]
}

// follow makes the chain begin with these cells. Those that are as they were, after others that are
// as they were, are not checked again.
func (n *Notebook) follow(codes []string) {
	same := 0
	for same < min(len(n.chain), len(codes)) && n.chain[same].code == codes[same] {
		same++
	}
	if same == len(codes) {
		return
	}
	n.drop(same)
	for _, code := range codes[same:] {
		n.chain = append(n.chain, n.add(code))
	}
}

// drop forgets the cells from an index on, with their positions.
func (n *Notebook) drop(from int) {
	for _, c := range n.chain[from:] {
		c.forget()
	}
	n.chain = slices.Delete(n.chain, from, len(n.chain))
}

// add checks a cell after those of the chain.
func (n *Notebook) add(code string) *checked {
	s := n.base
	if len(n.chain) > 0 {
		s = n.chain[len(n.chain)-1].after
	}
	n.seq++
	return s.clone().examine(n.seq, code)
}

// examine checks a cell and adds it to the session, unless it has errors.
func (s *Session) examine(seq int, code string) *checked {
	c := &checked{
		code: code, file: fmt.Sprintf("cell%d.go", seq), after: s,
		names: map[string]bool{},
	}
	if program(code) {
		if _, err := s.Program(seq, c.file, code); err != nil {
			c.errs = err.(*Errors).List
		}
		return c
	}
	d := s.draft(seq, c.file, code)
	c.draft = d
	for name := range d.own {
		c.names[name] = true
	}
	for _, name := range d.hoist {
		c.names[name] = true
	}
	if len(d.errs.List) == 0 {
		d.errs.Name = "CompileError"
		d.carryTypes(true)
		first := d.firstPass()
		d.second = first
		if len(d.errs.List) == 0 {
			d.declare(first)
		}
		if len(d.errs.List) == 0 {
			d.secondPass(first)
		}
	}
	c.files, s.scratch = s.scratch, nil
	c.errs = d.errs.List
	if len(c.errs) == 0 {
		s.Accept(d.u)
	}
	c.find()
	return c
}

// Problem is an error in a cell. Columns count from 0, in code points, lines from 1.
type Problem struct {
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	End      int    `json:"end"`
	Message  string `json:"message"`
	Severity string `json:"severity"`
}

// Problems returns the errors that the edited cell would fail with, as far as they are known before
// it runs. unknown reports whether a package has not been compiled yet: nothing is said about its
// members.
func (n *Notebook) Problems(c Cells, unknown func(name string) bool) []Problem {
	list := []Problem{}
	if !c.fits() {
		return list
	}
	s, before := n.before(c)
	n.seq++
	own := s.examine(n.seq, c.Codes[c.At])
	defer own.forget()
	// Names of cells with errors, and of cells below, which may run before.
	elsewhere := map[string]bool{}
	for _, b := range before {
		if len(b.errs) > 0 {
			maps.Copy(elsewhere, b.names)
		}
	}
	for _, code := range c.Codes[c.At+1:] {
		if !program(code) {
			d := s.draft(1<<30, "below.go", code)
			maps.Copy(elsewhere, d.own)
			for _, name := range d.hoist {
				elsewhere[name] = true
			}
		}
	}
	for _, e := range own.errs {
		if e.File != own.file || e.Line < 1 {
			continue
		}
		name, missing := strings.CutPrefix(e.Msg, "undefined: ")
		pkg, _, member := strings.Cut(name, ".")
		if missing && (elsewhere[name] || member && unknown(pkg)) {
			continue
		}
		list = append(list, problem(own.code, e))
	}
	return list
}

// forget removes the positions of a cell.
func (c *checked) forget() {
	for _, f := range c.files {
		c.after.fset.RemoveFile(f)
	}
}

// problem returns an error with the range of the token at its position.
func problem(code string, e Error) Problem {
	text, _ := lineText(code, e.Line)
	from := min(max(e.Col-1, 0), len(text))
	end := from
	if list, _ := scan(text[from:], true); len(list) > 0 && list[0].off == 0 {
		end = from + list[0].end
	}
	p := Problem{
		Line: e.Line, Column: utf8.RuneCountInString(text[:from]),
		Message: e.Msg, Severity: "error",
	}
	p.End = max(p.Column+utf8.RuneCountInString(text[from:end]), p.Column+1)
	return p
}

// Complete returns completions in the edited cell, as Session.Complete does.
func (n *Notebook) Complete(c Cells, cursor int) (list []Match, start, end int) {
	if !c.fits() {
		return nil, cursor, cursor
	}
	s, _ := n.before(c)
	return s.Complete(c.Codes[c.At], cursor)
}

// Describe describes the name at the cursor, as Session.Inspect does.
func (n *Notebook) Describe(c Cells, cursor int) (Subject, bool) {
	if !c.fits() {
		return Subject{}, false
	}
	s, _ := n.before(c)
	return s.Inspect(c.Codes[c.At], cursor)
}
