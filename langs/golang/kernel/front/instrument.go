package front

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// instrument adds the checks that make a cell interruptible and detect deep recursion: at the start
// of each loop's body, after each label that goto may jump to, and in each function that calls
// another. A line directive follows each check, so that positions stay the same.
func instrument(src string) (string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "gen.go", src, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	type edit struct {
		off  int
		text string
	}
	var edits []edit
	check := func(p token.Pos) {
		at := fset.PositionFor(p, true)
		edits = append(edits, edit{
			fset.PositionFor(p, false).Offset,
			fmt.Sprintf("Check__();/*line %s:%d:%d*/", at.Filename, at.Line, at.Column),
		})
	}
	function := func(b *ast.BlockStmt) {
		if b != nil && calls(b) {
			check(b.Lbrace + 1)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.ForStmt:
			check(x.Body.Lbrace + 1)
		case *ast.RangeStmt:
			check(x.Body.Lbrace + 1)
		case *ast.FuncDecl:
			if x.Name.Name != "Cell__" {
				function(x.Body)
			}
		case *ast.FuncLit:
			function(x.Body)
		case *ast.LabeledStmt: // a label of a for, switch or select must stay directly before it
			switch x.Stmt.(type) {
			case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt,
				*ast.SelectStmt:
			default:
				check(x.Stmt.Pos())
			}
		}
		return true
	})
	slices.SortStableFunc(edits, func(a, b edit) int { return a.off - b.off })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(src[at:e.off] + e.text)
		at = e.off
	}
	return b.String() + src[at:], nil
}

// calls reports whether a body calls anything, without the calls in its function literals.
func calls(b *ast.BlockStmt) bool {
	found := false
	ast.Inspect(b, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.CallExpr:
			found = true
		case *ast.FuncLit:
			return false
		}
		return !found
	})
	return found
}
