package front

import (
	"fmt"
	"go/format"
	"go/scanner"
	"strings"
)

// Format formats a cell as gofmt does. Statements and declarations are formatted apart, because no
// file has both at its top level.
func Format(code string) (string, error) {
	if program(code) {
		out, err := format.Source([]byte(code))
		if err != nil {
			return "", formatError(code, 0, err)
		}
		return strings.TrimRight(string(out), "\n"), nil
	}
	var b strings.Builder
	for _, c := range chunks(code) {
		text := strings.Trim(c.text, "\n")
		if b.Len() > 0 && strings.HasPrefix(c.text, "\n") {
			b.WriteString("\n")
		}
		if c.kind == listOnly {
			b.WriteString(strings.TrimSpace(text) + "\n")
			continue
		}
		out, err := format.Source([]byte(text))
		if err != nil {
			lead := len(c.text) - len(strings.TrimLeft(c.text, "\n"))
			return "", formatError(code, c.off+lead, err)
		}
		b.WriteString(strings.TrimRight(string(out), "\n") + "\n")
	}
	return strings.TrimRight(b.String(), "\n"), nil
}

type chunkKind int

const (
	declarations chunkKind = iota
	statements
	listOnly // expressions that are the cell's value
)

// chunk is a part of a cell that a file or a function may have. A comment belongs to the piece after
// it, or to one before it on the same line. A newline at the beginning stands for an empty line.
type chunk struct {
	kind chunkKind
	text string
	off  int
}

func chunks(code string) (list []chunk) {
	pieces := split(code)
	if len(pieces) == 0 {
		return []chunk{{declarations, code, 0}}
	}
	from := 0
	for i, p := range pieces {
		kind := statements
		switch {
		case p.kind == importDecl || p.kind == function || p.kind == method:
			kind = declarations
		case i == len(pieces)-1 && p.expressions() > 1:
			kind = listOnly
		case i > 0 && list[len(list)-1].kind == declarations && p.kind != statement:
			kind = declarations
		}
		end := len(code)
		if i+1 < len(pieces) {
			// To the end of the line, if there is no other piece on it.
			end = pieces[i+1].off
			after := p.off + len(p.text)
			if n := strings.IndexByte(code[after:end], '\n'); n >= 0 {
				end = after + n + 1
			}
		}
		text := code[from:end]
		if n := len(list) - 1; n >= 0 && list[n].kind == kind && kind != listOnly {
			list[n].text += text
		} else {
			if n >= 0 {
				list[n].text = strings.TrimRight(list[n].text, "; \t")
			}
			list = append(list, chunk{kind, text, from})
		}
		from = end
	}
	return list
}

// formatError returns a syntax error with its line in the cell.
func formatError(code string, off int, err error) error {
	list, ok := err.(scanner.ErrorList)
	if !ok || len(list) == 0 {
		return err
	}
	return fmt.Errorf("line %d: %s", lineOf(code, off)-1+list[0].Pos.Line, list[0].Msg)
}
