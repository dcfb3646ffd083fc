package front

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// kind is the kind of a top-level piece of a cell.
type kind int

const (
	statement kind = iota
	importDecl
	typeDecl
	constDecl
	varDecl
	function
	method
)

// piece is one top-level declaration or statement of a cell.
type piece struct {
	kind kind
	text string
	off  int // its offset in the cell, in bytes
	doc  string
}

// lexeme is one token with its start and end.
type lexeme struct {
	off, end int
	tok      token.Token
	lit      string
}

func scan(src string, comments bool) (list []lexeme, errs scanner.ErrorList) {
	fset := token.NewFileSet()
	f := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	mode := scanner.Mode(0)
	if comments {
		mode = scanner.ScanComments
	}
	s.Init(f, []byte(src), func(p token.Position, msg string) { errs.Add(p, msg) }, mode)
	for {
		p, t, lit := s.Scan()
		off := f.Offset(p)
		if t == token.EOF {
			return list, errs
		}
		end := off + len(lit)
		if lit == "" {
			end = off + len(t.String())
		}
		switch {
		case t == token.SEMICOLON && lit == "\n":
			end = off
		case strings.HasPrefix(lit, "`"): // the literal has no carriage returns, the source may
			if i := strings.IndexByte(src[off+1:], '`'); i >= 0 {
				end = off + i + 2
			}
		case t == token.ILLEGAL: // it may stand for fewer bytes
			_, n := utf8.DecodeRuneInString(src[off:])
			end = off + n
		}
		list = append(list, lexeme{off, min(end, len(src)), t, lit})
	}
}

// split cuts a cell into its top-level pieces: a semicolon, written or inserted, outside of all
// brackets ends a piece.
func split(src string) []piece {
	list, _ := scan(src, false)
	var out []piece
	start, depth, last := -1, 0, 0
	end := func(i int) {
		if start >= 0 {
			out = append(out, newPiece(src, list[start:i], last))
			last = list[i-1].end
		}
		start = -1
	}
	for i, l := range list {
		switch l.tok {
		case token.LPAREN, token.LBRACE, token.LBRACK:
			depth++
		case token.RPAREN, token.RBRACE, token.RBRACK:
			depth--
		}
		if l.tok != token.SEMICOLON || depth > 0 {
			if start < 0 {
				start = i
			}
			continue
		}
		if start < 0 || l.lit != "\n" && header(src, list[start:i]) {
			continue
		}
		end(i)
	}
	end(len(list))
	return out
}

// header reports whether a written semicolon after list belongs to the header
// of a for, if or switch.
func header(src string, list []lexeme) bool {
	for len(list) > 1 && list[0].tok == token.IDENT && list[1].tok == token.COLON {
		list = list[2:]
	}
	if len(list) == 0 {
		return false
	}
	switch list[0].tok {
	case token.FOR, token.IF, token.SWITCH:
		text := src[list[0].off:list[len(list)-1].end]
		_, err := parser.ParseFile(token.NewFileSet(), "", "package p;func _(){"+text+"\n}",
			parser.SkipObjectResolution)
		return err != nil
	}
	return false
}

func newPiece(src string, list []lexeme, after int) piece {
	p := piece{
		off: list[0].off, text: src[list[0].off:list[len(list)-1].end],
		doc: comment(src[after:list[0].off]),
	}
	switch list[0].tok {
	case token.IMPORT:
		p.kind = importDecl
	case token.TYPE:
		p.kind = typeDecl
	case token.CONST:
		p.kind = constDecl
	case token.VAR:
		p.kind = varDecl
	case token.FUNC:
		p.kind = funcKind(list)
	}
	return p
}

// funcKind distinguishes a function, a method, and a function literal that is called or is the
// cell's value.
func funcKind(list []lexeme) kind {
	if len(list) > 1 && list[1].tok == token.IDENT {
		return function
	}
	depth := 0
	for i, l := range list {
		switch l.tok {
		case token.LPAREN:
			depth++
		case token.RPAREN:
			if depth--; depth == 0 {
				if i+2 < len(list) && list[i+1].tok == token.IDENT &&
					list[i+2].tok == token.LPAREN {
					return method
				}
				return statement
			}
		}
	}
	return statement
}

// comment returns the text of the comment that ends directly before a piece.
func comment(between string) string {
	if i := strings.LastIndex(between, "\n\n"); i >= 0 {
		between = between[i:]
	}
	list, _ := scan(between, true)
	var b strings.Builder
	for _, l := range list {
		if l.tok == token.COMMENT {
			b.WriteString(l.lit + "\n")
		}
	}
	return strings.TrimSpace(b.String())
}

// program reports whether the cell is a whole file: it has a package clause.
func program(src string) bool {
	list, _ := scan(src, false)
	return len(list) > 1 && list[0].tok == token.PACKAGE && list[1].tok == token.IDENT
}

// IsProgram reports whether the code is a whole program.
func IsProgram(code string) bool { return program(code) }

// IsComplete reports whether code could be run: complete, incomplete or invalid, and the
// indentation of the next line.
func IsComplete(code string) (state, indent string) {
	list, errs := scan(code, false)
	depth := 0
	for _, l := range list {
		switch l.tok {
		case token.LPAREN, token.LBRACE, token.LBRACK:
			depth++
		case token.RPAREN, token.RBRACE, token.RBRACK:
			depth--
			if depth < 0 {
				return "invalid", ""
			}
		}
	}
	if len(errs) > 0 {
		if m := errs[0].Msg; strings.Contains(m, "raw string") || strings.Contains(m, "comment") {
			return "incomplete", "" // not terminated
		}
		return "invalid", ""
	}
	if depth > 0 {
		return "incomplete", strings.Repeat("\t", depth)
	}
	if n := len(list); n > 0 {
		// A line that ends in an operator, a comma or a dot continues.
		switch t := list[n-1].tok; {
		case t.IsOperator() && t != token.SEMICOLON && t != token.RPAREN && t != token.RBRACE &&
			t != token.RBRACK && t != token.INC && t != token.DEC:
			return "incomplete", ""
		case t.IsKeyword() && t != token.BREAK && t != token.CONTINUE && t != token.RETURN &&
			t != token.FALLTHROUGH:
			return "incomplete", ""
		}
	}
	if program(code) {
		if _, err := parser.ParseFile(token.NewFileSet(), "", code,
			parser.SkipObjectResolution); err != nil {
			return "invalid", ""
		}
		return "complete", ""
	}
	for _, p := range split(code) {
		if _, _, err := p.parse(token.NewFileSet(), "cell.go", code); err != nil {
			return "invalid", ""
		}
	}
	return "complete", ""
}

// parse parses a piece at its position in the cell, and returns its declarations, or its
// statements.
func (p piece) parse(fset *token.FileSet,
	file, src string,
) (decls []ast.Decl, stmts []ast.Stmt, err error) {
	open, shut := "package p;", "\n"
	if p.kind == statement {
		open, shut = "package p;func _(){", "\n}"
	}
	f, err := parser.ParseFile(fset, "", open+mark(file, src, p.off)+p.text+shut,
		parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	if p.kind != statement {
		return f.Decls, nil, nil
	}
	if len(f.Decls) != 1 {
		return nil, nil, scanner.ErrorList{{Pos: token.Position{
			Filename: file,
			Line:     lineOf(src, p.off), Column: columnOf(src, p.off),
		}, Msg: "unexpected }"}}
	}
	return nil, f.Decls[0].(*ast.FuncDecl).Body.List, nil
}

// expressions returns how many expressions a statement's text lists, 0 if it is no list of them.
func (p piece) expressions() int {
	if p.kind != statement || strings.HasSuffix(strings.TrimSpace(p.text), ",") {
		return 0
	}
	x, err := parser.ParseExpr("_(" + p.text + ")")
	if err != nil {
		return 0
	}
	call, ok := x.(*ast.CallExpr)
	if !ok || call.Ellipsis.IsValid() {
		return 0
	}
	return len(call.Args)
}
