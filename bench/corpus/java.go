package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
)

//go:embed Reference.java
var javaReference string

// javaCorpus has the snippets in the comments of Java's source. A snippet that JShell runs without
// a kernel must print the same in one.
func javaCorpus() corpus {
	return corpus{language: "java", read: readJava, references: javaReferences}
}

func readJava(dir string) ([]*program, error) {
	star := regexp.MustCompile(`(?m)^\s*\* ?`)
	block := regexp.MustCompile(`(?s)\{@snippet[^:{}]*:\s*\n(.*?)\n\s*\}\s*\n|` +
		`<pre>\s*\{@code(.*?)\}\s*</pre>|<pre>(.*?)</pre>`)
	mark := regexp.MustCompile(`(?m)//\s*@(link|highlight|replace|start|end)\b.*$`)
	return readAll(dir, func(name, _, text string) []*program {
		p := &program{name: name}
		for i, m := range block.FindAllStringSubmatch(star.ReplaceAllString(text, ""), -1) {
			code := m[1] + m[2]
			if m[3] != "" {
				code = html.UnescapeString(regexp.MustCompile(`<[^<>]*>|\{@code |\{@literal `).
					ReplaceAllString(m[3], ""))
			}
			p.cells = append(p.cells, &cell{
				name: fmt.Sprint(i + 1), code: mark.ReplaceAllString(code, ""),
			})
		}
		if len(p.cells) == 0 {
			return nil
		}
		return []*program{p}
	}, ".java")
}

// verdict says whether a snippet ran without an error, what it printed, and its value.
type verdict struct {
	ok          bool
	text, value string
}

// verdictsOf runs snippets in JShell without a kernel, each in a new one unless shared. A snippet
// that ends the process, or does not end, has failed, and another process runs those after it.
func verdictsOf(ctx context.Context, b *box, codes []string, shared bool) ([]verdict, error) {
	for i := range codes {
		codes[i] = strings.ReplaceAll(codes[i], "\x00", "")
	}
	err := b.write(ctx, "snippets", strings.Join(codes, "\x00"))
	if err == nil {
		err = b.write(ctx, "Reference.java", javaReference)
	}
	if err != nil {
		return nil, err
	}
	verdicts := make([]verdict, 0, len(codes))
	for len(verdicts) < len(codes) {
		if _, _, err := b.run(ctx, "bash", "-c", fmt.Sprintf(
			"[ -f Reference.class ] || javac Reference.java; rm -f verdicts; timeout 280 "+
				"java Reference snippets verdicts %v %d >/dev/null 2>&1 </dev/null; touch verdicts",
			shared, len(verdicts))); err != nil {
			return nil, err
		}
		out, _, err := b.run(ctx, "cat", "verdicts")
		if err != nil {
			return nil, err
		}
		texts := strings.Split(out, "\x00")
		for _, text := range texts[:len(texts)-1] {
			var v verdict
			v.ok = strings.HasPrefix(text, "+")
			v.text, v.value, _ = strings.Cut(text[1:], "\x01")
			verdicts = append(verdicts, v)
		}
		if len(verdicts) < len(codes) {
			verdicts = append(verdicts, verdict{})
		}
	}
	return verdicts[:len(codes)], nil
}

// javaReferences finds the snippets that JShell runs without a kernel, and what they print.
func javaReferences(ctx context.Context, b *box, programs []*program) error {
	var cells []*cell
	var codes []string
	for _, p := range programs {
		for _, c := range p.cells {
			cells, codes = append(cells, c), append(codes, c.code)
		}
	}
	verdicts, err := verdictsOf(ctx, b, codes, false)
	if err != nil {
		return err
	}
	for i, c := range cells {
		if !verdicts[i].ok {
			c.skip, c.code = "fails without a kernel", ""
			continue
		}
		c.check = func(o outcome) string { return checkSnippet(verdicts[i], o) }
	}
	return nil
}

// checkSnippet compares text and value, unless they have addresses of objects.
func checkSnippet(want verdict, o outcome) string {
	if o.failed {
		return o.name + ": " + o.value
	}
	address := func(text string) bool { return strings.Contains(text, "@") }
	if strings.TrimSpace(want.text) != strings.TrimSpace(o.stdout) && !address(want.text) {
		return wanted(want.text, o.stdout)
	}
	if n := len(o.values); n > 0 && o.values[n-1] != want.value && !address(want.value) {
		return "value: " + wanted(want.value, o.values[n-1])
	}
	return ""
}

// javaReasons explains the differences between the kernel and JShell.
func javaReasons() []reason {
	return []reason{because("has a main method: a cell runs it, and JShell only declares it",
		`static void main\(`, "")}
}

// jshellCorpus has the tests of JShell that evaluate texts and name their values. The texts of a
// method are the cells of a program, up to a call of JShell's API that no cell can make.
func jshellCorpus() corpus {
	return corpus{language: "java", read: readJShell, applies: appliesJShell}
}

func readJShell(dir string) ([]*program, error) {
	comment := regexp.MustCompile(`(?ms)^\s*/\*.*?\*/`)
	method := regexp.MustCompile(`(?m)^    (?:@Test[^\n]*\n\s*)?public void (\w+)\(\)[^{]*\{`)
	return readAll(dir, func(name, _, text string) (list []*program) {
		text = comment.ReplaceAllString(text, "")
		places := method.FindAllStringSubmatchIndex(text, -1)
		for i, m := range places {
			end := len(text)
			if i+1 < len(places) {
				end = places[i+1][0]
			}
			p := &program{name: name + "/" + text[m[2]:m[3]]}
			p.cells = assertions(text[m[1]:end])
			if len(p.cells) > 0 {
				list = append(list, p)
			}
		}
		return list
	}, ".java")
}

// assertions returns the calls in a method whose arguments are texts.
func assertions(body string) []*cell {
	call := regexp.MustCompile(`\bassert(Eval|EvalException|DeclareFail|DeclareWarn1|Declare|Drop)\(`)
	var list []*cell
	for _, m := range call.FindAllStringSubmatchIndex(body, -1) {
		code, rest, ok := textOf(body[m[1]:])
		if !ok {
			break // later calls may depend on this one
		}
		c := &cell{name: fmt.Sprint(len(list) + 1), code: code}
		kind, want, has := body[m[2]:m[3]], "", false
		if kind == "Eval" && strings.HasPrefix(rest, ",") {
			want, _, has = textOf(rest[1:])
		}
		c.check = func(o outcome) string {
			if kind == "EvalException" || kind == "DeclareFail" {
				if !o.failed {
					return "wanted an error, got " + o.text
				}
				return ""
			}
			if o.failed {
				return o.name + ": " + o.value
			}
			got := ""
			if n := len(o.values); n > 0 {
				got = o.values[n-1]
			}
			if has && got != want && got != strings.Trim(want, `"'`) && got != "" {
				return wanted(want, got)
			}
			return ""
		}
		list = append(list, c)
	}
	return list
}

// textOf reads texts of Java that are joined with +, and returns what follows them.
func textOf(source string) (text, rest string, ok bool) {
	literal := regexp.MustCompile(`\A\s*("(?:[^"\\\n]|\\.)*")\s*`)
	for {
		m := literal.FindStringSubmatch(source)
		if m == nil {
			return "", source, false
		}
		var part string
		if json.Unmarshal([]byte(strings.ReplaceAll(m[1], `\'`, `'`)), &part) != nil {
			return "", source, false
		}
		text, source = text+part, source[len(m[0]):]
		if !strings.HasPrefix(source, "+") {
			return text, source, strings.HasPrefix(source, ",") || strings.HasPrefix(source, ")")
		}
		source = source[1:]
	}
}

// appliesJShell runs the program with JShell without a kernel.
func appliesJShell(ctx context.Context, b *box, p *program, c *cell) (string, error) {
	codes := make([]string, len(p.cells))
	for i, other := range p.cells {
		codes[i] = other.code
	}
	verdicts, err := verdictsOf(ctx, b, codes, true)
	if err != nil {
		return "", err
	}
	for i, other := range p.cells {
		alone := outcome{failed: !verdicts[i].ok, values: []string{verdicts[i].value}}
		if other == c && c.check(alone) != "" {
			return "fails without a kernel", nil
		}
	}
	return "", nil
}

// jshellReasons explains the differences between the kernel and JShell.
func jshellReasons() []reason {
	return []reason{
		{
			name: "a variable keeps its class when a class of that name is declared again",
			code: regexp.MustCompile(`/(testRedefine|testDrop|testReplaceClassToVar)/`),
		},
		{
			name: "waits between its cells, which the corpus does not",
			code: regexp.MustCompile(`checkTimestampCheck`),
		},
		{
			name: "asserts false: assertions are on in a kernel, and off in the test",
			code: regexp.MustCompile(`syntheticVariables`),
		},
		{
			name: "the test has an engine of its own, which changes values",
			code: regexp.MustCompile(`ExecutionControl\w*Test`),
		},
	}
}
