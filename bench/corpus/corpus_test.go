package main

import (
	"go/doc"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestReadersFindCells reads a small file of each form.
func TestReadersFindCells(t *testing.T) {
	for _, c := range []struct {
		corpus, file, text string
		want               []string
	}{
		{
			"go", "a_test.go", "package a_test\n\nimport \"fmt\"\n\nfunc ExampleA() {\n\tfmt.Println(1)\n" +
				"\t// Output: 1\n}\n\nfunc ExampleB() {\n\tif true {\n\t\treturn\n\t}\n\t// Output:\n}\n",
			[]string{
				"\n\tfmt.Println(1)\n\t// Output: 1\n",
				"func() {\n\tif true {\n\t\treturn\n\t}\n\t// Output:\n}()",
			},
		},
		{
			"node", "a.md", "# a\n\n```js\n1\n```\n\n```bash\nls\n```\n\n```mjs\n2\n```\n",
			[]string{"1\n", "2\n"},
		},
		{
			"jshell", "A.java", "class A {\n    public void testOne() {\n" +
				"        assertEval(\"int x = \" +\n            \"5;\", \"5\");\n" +
				"        assertEval(\"x\", added(VALID));\n        assertEval(other);\n    }\n}\n",
			[]string{"int x = 5;", "x"},
		},
		{
			"java", "A.java", "/**\n * {@snippet :\n *     int a = 1; // @link x\n * }\n * <pre>{@code\n *   b();\n" +
				" * }</pre>\n * <pre>\n * c &lt; <b>d</b>\n * </pre>\n */\nclass A {}\n",
			[]string{"    int a = 1; ", "\n  b();\n", "\nc < d\n"},
		},
		{
			"php", "a.phpt", "--TEST--\na\n--FILE--\n<?php echo 1;\n--EXPECT--\n1\n",
			[]string{"<?php echo 1;\n"},
		},
		{
			"sql", "a.test", "execsql {CREATE TABLE t(a)}\ndo_execsql_test 1 {\n  SELECT 1\n} {1}\n" +
				"do_execsql_test 2 \"SELECT $x\" {}\ndo_catchsql_test 3 {SELECT} {1 {bad}}\nfoo [bar]\n" +
				"do_test 4 {\n  execsql {SELECT 2}\n} {2}\n",
			[]string{"CREATE TABLE t(a)", "\n  SELECT 1\n", "SELECT", "SELECT 2"},
		},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		programs, err := corpora()[c.corpus].read(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range programs {
			for _, cell := range p.cells {
				got = append(got, cell.code)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: wanted %q, got %q", c.corpus, c.want, got)
		}
	}
}

// TestChecksSeeDifferences compares outcomes with the expected ones.
func TestChecksSeeDifferences(t *testing.T) {
	php := func(want string) func(outcome) string {
		return readTest("a", "a", map[string]string{"FILE": "<?php", "EXPECTF": want}).cells[0].check
	}
	go1 := func(o outcome) string {
		return checkExample(&doc.Example{Output: "b\na\n", Unordered: true}, "a_test", o)
	}
	python := func(want, exception string) func(outcome) string {
		return func(o outcome) string {
			return checkExamplePython(example{Want: want, Exception: exception, Also: "int"}, o)
		}
	}
	for _, c := range []struct {
		name  string
		check func(outcome) string
		o     outcome
		ok    bool
	}{
		{"php", php("int(%d)\n"), outcome{text: "int(5)"}, true},
		{"php, other text", php("int(%d)\n"), outcome{text: "int(a)"}, false},
		{
			"php, a warning", php("a\n\nWarning: Undefined variable $b in %s on line %d\n"),
			outcome{text: "a\nWarning: Undefined variable $b in cell 1 on line 3\n"},
			true,
		},
		{
			"php, an error", php("Fatal error: Uncaught Error: no in %s:%d\n" +
				"Stack trace:\n#0 {main}\n  thrown in %s on line %d\n"),
			outcome{failed: true, name: "Error", value: "no"},
			true,
		},
		{"php, no error", php("Fatal error: Uncaught Error: no in %s:%d\n"), outcome{}, false},
		{"go", go1, outcome{stdout: "a\nb\n"}, true},
		{"go, an error", go1, outcome{stdout: "a\nb\n", failed: true}, false},
		{"python", python("[1, ...]\n", ""), outcome{text: "[1,\n 2]"}, true},
		{"python, IPython's form", python("<class 'int'>\n", ""), outcome{text: "int"}, true},
		{
			"python, an address", python("<a object at 0x7ffff0001000>\n", ""),
			outcome{text: "<a object at 0x7ffff0002000>"},
			true,
		},
		{"python, other text", python("[1, ...]\n", ""), outcome{text: "[2]"}, false},
		{"python, an error", python("", "ValueError: a"), outcome{failed: true, name: "ValueError"}, true},
		{"python, no error", python("", "ValueError: a"), outcome{}, false},
		{"sql", sqlCell("", "x", "1 {a b} {}").check, outcome{data: []string{
			`{"schema":{"fields":[{"name":"a"},{"name":"b"},{"name":"c"}]},"data":[{"a":1.0,"b":"a b","c":null}]}`,
		}}, true},
		{"sql, no rows", sqlCell("", "x", "1 {a b}").check, outcome{}, false},
	} {
		if why := c.check(c.o); (why == "") != c.ok {
			t.Errorf("%s: got %q", c.name, why)
		}
	}
}
