package front

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// Signature is that of a function whose arguments are typed.
type Signature struct {
	Label string `json:"label"`
	// Parameters are ranges of the label, in UTF-16 units, as are those of editors.
	Parameters [][2]int `json:"parameters"`
	// Active is the index of the parameter at the cursor.
	Active int    `json:"active"`
	Doc    string `json:"doc,omitempty"`
}

// Signature describes the call around the cursor.
func (n *Notebook) Signature(c Cells, cursor int) (Signature, bool) {
	if !c.fits() {
		return Signature{}, false
	}
	code := c.Codes[c.At]
	open, argument := call(code[:min(max(cursor, 0), len(code))])
	if open < 0 {
		return Signature{}, false
	}
	s, _ := n.before(c)
	defer s.forget(nil)
	head := code[:open] + "(" + placeholder + ")"
	p := s.sketch(head+closers(code[:open]), len(head), "")
	if p == nil {
		return Signature{}, false
	}
	var fun ast.Expr
	ast.Inspect(p.file, func(x ast.Node) bool {
		if x, ok := x.(*ast.CallExpr); ok && len(x.Args) == 1 {
			if id, ok := x.Args[0].(*ast.Ident); ok && id.Name == placeholder {
				fun = ast.Unparen(x.Fun)
			}
		}
		return true
	})
	if fun == nil {
		return Signature{}, false
	}
	return s.signature(p, fun, argument)
}

// signature returns the signature of the function of a call.
func (s *Session) signature(p *pass, fun ast.Expr, argument int) (Signature, bool) {
	var o types.Object
	switch x := fun.(type) {
	case *ast.Ident:
		o = p.info.Uses[x]
	case *ast.SelectorExpr:
		o = p.info.Uses[x.Sel]
	}
	if b, ok := o.(*types.Builtin); ok {
		label, names, doc := builtin(b.Name())
		return mark16(label, names, argument, true, doc), label != ""
	}
	t := p.info.Types[fun].Type
	if o != nil {
		t = o.Type()
	}
	if t == nil {
		return Signature{}, false
	}
	if _, conversion := o.(*types.TypeName); conversion {
		return Signature{}, false
	}
	sig, ok := t.Underlying().(*types.Signature)
	if !ok {
		return Signature{}, false
	}
	label, doc := s.plain(types.TypeString(sig, shortPackage)), ""
	if o != nil {
		x := s.subject(o)
		doc = x.Doc
		if _, isFunc := o.(*types.Func); isFunc {
			label = x.Signature
		}
	}
	var names []string
	for v := range sig.Params().Variables() {
		text := s.plain(types.TypeString(v.Type(), shortPackage))
		if sig.Variadic() && len(names) == sig.Params().Len()-1 {
			text = "..." + strings.TrimPrefix(text, "[]")
		}
		names = append(names, strings.TrimSpace(v.Name()+" "+text))
	}
	return mark16(label, names, argument, sig.Variadic(), doc), true
}

func shortPackage(p *types.Package) string {
	if strings.HasPrefix(p.Path(), "cells/") {
		return ""
	}
	return p.Name()
}

// mark16 finds the parameters in a label. Arguments after the last parameter belong to it if the
// function is variadic.
func mark16(label string, names []string, argument int, variadic bool, doc string) Signature {
	out := Signature{Label: label, Parameters: [][2]int{}, Active: argument, Doc: doc}
	at := strings.IndexByte(label, '(')
	if _, rest, ok := strings.Cut(label, ")."); ok && strings.HasPrefix(label, "func (") {
		at = len(label) - len(rest) + max(strings.IndexByte(rest, '('), 0) // after the receiver
	}
	for _, name := range names {
		i := strings.Index(label[max(at, 0):], name)
		if i < 0 {
			return out
		}
		at = max(at, 0) + i
		from := units(label[:at])
		at += len(name)
		out.Parameters = append(out.Parameters, [2]int{from, units(label[:at])})
	}
	if last := len(names) - 1; variadic && argument > last {
		out.Active = last
	}
	return out
}

// units returns the length of a text in UTF-16.
func units(text string) (n int) {
	for _, r := range text {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

// call returns the offset of the parenthesis that opens the call around the end of code, and the
// number of arguments before the end; -1 if there is none.
func call(code string) (open, argument int) {
	list, _ := scan(code, false)
	depth := 0
	for i := len(list) - 1; i > 0; i-- {
		switch list[i].tok {
		case token.RPAREN, token.RBRACK, token.RBRACE:
			depth++
		case token.LBRACK, token.LBRACE:
			if depth--; depth < 0 {
				if list[i].tok == token.LBRACE && body(list[:i]) {
					return -1, 0
				}
				depth, argument = 0, 0
			}
		case token.LPAREN:
			if depth > 0 {
				depth--
				continue
			}
			switch list[i-1].tok {
			case token.IDENT, token.RPAREN, token.RBRACK:
				if i > 1 && list[i-2].tok == token.FUNC {
					return -1, 0
				}
				return list[i].off, argument
			}
			argument = 0
		case token.COMMA:
			if depth == 0 {
				argument++
			}
		}
	}
	return -1, 0
}

// body reports whether a brace after list opens a body, and no composite literal.
func body(list []lexeme) bool {
	for i := len(list) - 1; i >= 0; i-- {
		switch list[i].tok {
		case token.SEMICOLON, token.LBRACE, token.RBRACE:
			return false
		case token.FUNC, token.IF, token.FOR, token.SWITCH, token.SELECT, token.ELSE:
			return true
		}
	}
	return false
}

// builtin returns the declaration of a predeclared function, its parameters, and its comment.
func builtin(name string) (label string, parameters []string, doc string) {
	p := pages("builtin")
	if p == nil {
		return "", nil, ""
	}
	funcs := p.Funcs
	for _, t := range p.Types {
		funcs = append(funcs, t.Funcs...)
	}
	for _, f := range funcs {
		if f.Name != name {
			continue
		}
		text := func(x ast.Expr) string { return types.ExprString(x) }
		for _, field := range f.Decl.Type.Params.List {
			for _, n := range field.Names {
				parameters = append(parameters, n.Name+" "+text(field.Type))
			}
		}
		label = "func " + name + "(" + strings.Join(parameters, ", ") + ")"
		if r := f.Decl.Type.Results; r != nil && len(r.List) == 1 {
			label += " " + text(r.List[0].Type)
		}
		return label, parameters, strings.TrimSpace(f.Doc)
	}
	return "", nil, ""
}
