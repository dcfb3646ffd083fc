package notebook

import (
	"fmt"
	"strings"
	"testing"

	wire "github.com/sandgate/sandgate/protocol/notebook"
)

func cellsOf(cells ...string) string {
	return `{"metadata": {"a": [1, {}]}, "cells": [` + strings.Join(cells, ",") + `], "nbformat": 4}`
}

func cell(kind, source string) string {
	return fmt.Sprintf(`{"cell_type": %q, "outputs": [{"text": "# no"}], "source": %s}`, kind, source)
}

func TestTitle(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for _, c := range []struct{ text, want string }{
		{cellsOf(cell("code", `"x = 1"`), cell("markdown", `["text\n", "## **Sales** of May"]`)), "Sales of May"},
		{cellsOf(cell("markdown", `"#no heading"`), cell("code", `["import os\n", "\n", "# c\n", "run()"]`)), "run()"},
		{cellsOf(cell("code", `"import pandas as pd"`)), "import pandas as pd"},
		{cellsOf(cell("raw", `"# raw"`)), ""},
		{cellsOf(cell("markdown", `"# `+long+`"`)), strings.Repeat("ä", 79) + "…"},
		{cellsOf(cell("markdown", `"# a\u202eb"`)), "ab"},
		{`{"cells": [{"cell_type": "code", "source": "print(1)"}, {"cell_type": "code", "outputs": ["` +
			strings.Repeat("x", titleWithin) + `"]}]}`, "print(1)"},
		{"no notebook", ""},
		{`{"cells": {}}`, ""},
		{`[]`, ""},
	} {
		if got := titleOf(strings.NewReader(c.text)); got != c.want {
			t.Errorf("%.60s…: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestListHasTitles(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	o := OwnerOf("acme", "ann", "s")
	r.save(o, "a.ipynb", cellsOf(cell("markdown", `"# First"`)))
	r.save(o, "a.ipynb", cellsOf(cell("markdown", `"# Second"`)))
	for _, s := range []*rig{r, open(t, dir)} {
		l, err := s.List("acme", wire.Query{})
		if err != nil || len(l.Notebooks) != 1 || l.Notebooks[0].Title != "Second" {
			t.Fatalf("%+v, %v", l, err)
		}
	}
}
