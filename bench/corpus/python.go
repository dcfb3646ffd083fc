package main

import (
	"cmp"
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
	return corpus{language: "python", read: readPython, prepare: preparePython}
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

// example is one example as doctest has it. Also is the text with the values in IPython's form.
type example struct {
	Line      int
	Source    string
	Want      string
	Exception string
	Also      string
}

// preparePython replaces the text of a page by its examples. Python runs them first without a
// kernel. It writes the list of the examples, and a line for each that it has run.
func preparePython(ctx context.Context, b *box, p *program) error {
	text := p.cells[0].code
	p.cells = nil
	if err := b.write(ctx, "page", text); err != nil {
		return err
	}
	if err := b.write(ctx, ".reference.py", pythonReference); err != nil {
		return err
	}
	if _, _, err := b.run(ctx, "bash", "-c", "rm -f /tmp/examples; timeout 60 python3 .reference.py page "+
		p.name+" /tmp/examples </dev/null"); err != nil {
		return err
	}
	out, code, err := b.run(ctx, "cat", "/tmp/examples")
	if err != nil || code != 0 {
		return cmp.Or(err, fmt.Errorf("the reference has no result: %s", short(out)))
	}
	_, _, _ = b.run(ctx, "rm", "-f", "/tmp/examples", "page")
	p.setup, p.cells, err = examplesOf(out)
	return err
}

// examplesOf reads the result of the reference.
func examplesOf(out string) (setup []string, cells []*cell, err error) {
	d := json.NewDecoder(strings.NewReader(out))
	var page struct {
		Setup    string
		Examples []*example
	}
	if err := d.Decode(&page); err != nil {
		return nil, nil, fmt.Errorf("%w in %q", err, short(out))
	}
	if page.Setup != "" {
		setup = []string{page.Setup}
	}
	ran := map[int]bool{}
	right := map[int]string{}
	for d.More() {
		var line struct {
			Line int
			OK   bool
			Also string
		}
		if d.Decode(&line) != nil {
			break // the page ended Python
		}
		ran[line.Line] = true
		if line.OK {
			right[line.Line] = line.Also
		}
	}
	for _, e := range page.Examples {
		c := &cell{name: fmt.Sprint(e.Line), code: e.Source}
		c.check = func(o outcome) string { return checkExamplePython(*e, o) }
		also, ok := right[e.Line]
		e.Also = also
		switch {
		case !ran[e.Line]:
			c.skip, c.code = "comes after an example that ends Python, or is not to be run", ""
		case !ok:
			c.skip = "fails without a kernel"
		}
		cells = append(cells, c)
	}
	return setup, cells, nil
}

// checkExamplePython compares as doctest does with its options ELLIPSIS and NORMALIZE_WHITESPACE.
// White space is ignored altogether, since IPython breaks long values into lines. A value may also
// have IPython's form, such as int for <class 'int'>.
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
	address := regexp.MustCompile(`0x[0-9a-f]{6,}|\bid='\d+'`)
	squeeze := func(s string) string {
		return address.ReplaceAllString(strings.Join(strings.Fields(s), ""), "0x…")
	}
	want, got := squeeze(strings.ReplaceAll(e.Want, "<BLANKLINE>", "")), squeeze(o.text)
	if want == got || e.Also != "" && squeeze(e.Also) == got {
		return ""
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), `\.\.\.`, `(?s:.*)`)
	if ok, err := regexp.MatchString(`\A`+pattern+`\z`, got); err == nil && ok {
		return ""
	}
	return wanted(e.Want, o.text)
}

// pythonReasons explains the differences between the kernel and Python's interactive mode.
func pythonReasons() []reason {
	return []reason{
		because("the session keeps the values of cells in Out", `automatically removed`, ""),
		{
			name: "only the last expression of a cell is shown, and none inside of a statement",
			code: regexp.MustCompile(`\n(for|with|while|if|try)\b[^\n]*:`),
			why:  regexp.MustCompile(`got ""`),
		},
	}
}
