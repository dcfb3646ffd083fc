package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

//go:embed python_reference.py
var pythonReference string

// pythonCorpus has the examples of Python's documentation and docstrings, which doctest finds. The
// examples of a page are the cells of a program.
func pythonCorpus() corpus {
	return corpus{language: "python", read: readPython, prepare: preparePython, applies: appliesPython}
}

// readPython finds pages and modules. The examples of a module are in the docstrings of its source.
func readPython(dir string) ([]*program, error) {
	return readAll(dir, func(name, _, text string) []*program {
		if !strings.Contains(text, ">>> ") {
			return nil
		}
		return []*program{{name: name, cells: []*cell{{code: text}}}}
	}, ".rst.txt", ".rst", ".py")
}

// example is one example as doctest has it. OK says that Python without a kernel prints Want.
type example struct {
	Line      int
	Source    string
	Want      string
	Exception string
	OK        bool
	Ellipsis  bool
	Why       string
}

// preparePython replaces the text of a page by its examples. Python runs them first without a kernel.
func preparePython(ctx context.Context, b *box, p *program) error {
	text := p.cells[0].code
	p.cells = nil
	if err := b.write(ctx, "page", text); err != nil {
		return err
	}
	if err := b.write(ctx, ".reference.py", pythonReference); err != nil {
		return err
	}
	if _, _, err := b.run(ctx, "timeout", "60", "python3", ".reference.py", "page", p.name,
		"/tmp/examples"); err != nil {
		return err
	}
	out, code, err := b.run(ctx, "cat", "/tmp/examples")
	if err != nil {
		return err
	}
	if code != 0 {
		return nil // the page ends Python, or does not end
	}
	_, _, _ = b.run(ctx, "rm", "-f", "/tmp/examples", "page")
	var list []example
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return fmt.Errorf("%w in %q", err, short(out))
	}
	for _, e := range list {
		c := &cell{name: fmt.Sprint(e.Line), code: e.Source}
		c.check = func(o outcome) string { return checkExamplePython(e, o) }
		if !e.OK {
			c.skip = "fails without a kernel"
		}
		p.cells = append(p.cells, c)
	}
	return nil
}

// checkExamplePython compares as doctest does with its options ELLIPSIS and NORMALIZE_WHITESPACE.
// White space is ignored altogether, since IPython breaks long values into lines.
func checkExamplePython(e example, o outcome) string {
	if e.Exception != "" {
		if !o.failed {
			return wanted(e.Exception, o.text)
		}
		name, _, _ := strings.Cut(e.Exception, ":")
		name = strings.TrimSpace(name[strings.LastIndex(name, ".")+1:])
		if name != o.name[strings.LastIndex(o.name, ".")+1:] {
			return wanted(e.Exception, o.name+": "+o.value)
		}
		return ""
	}
	if o.failed {
		return wanted(e.Want, o.String())
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	want, got := squeeze(strings.ReplaceAll(e.Want, "<BLANKLINE>", "")), squeeze(o.text)
	if want == got {
		return ""
	}
	if e.Ellipsis {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `(?s:.*)`)
		if ok, err := regexp.MatchString(`\A`+pattern+`\z`, got); err == nil && ok {
			return ""
		}
	}
	return wanted(e.Want, o.text)
}

func appliesPython(context.Context, *box, *program, *cell) (string, error) {
	return "", nil
}
