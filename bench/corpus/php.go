package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// phpCorpus has PHP's own tests, whose files end in .phpt: a script and what it prints.
func phpCorpus() corpus {
	return corpus{language: "php", read: readPHP, prepare: preparePHP, applies: appliesPHP}
}

func readPHP(dir string) ([]*program, error) {
	return readAll(dir, func(name, path, text string) []*program {
		return []*program{readTest(name, path, sections(text))}
	}, ".phpt")
}

// phpReasons are differences that the kernel has on purpose.
func phpReasons() []reason {
	return []reason{
		because("prints in a function for the end, which a cell calls before its error is shown",
			`register_shutdown_function`, `Uncaught`),
		because("includes or compiles its own file, which declares its names again",
			`(include|require)(_once)?[ (]*__FILE__`, ""),
		because("prints the memory in use", `memory_(limit|get_usage)`, ""),
		because("destroys objects at the end of the process, which a kernel does not reach",
			`__destruct`, `during shutdown`),
		because("has an output handler that changes the text of its error, which a kernel reports",
			`ob_start`, `got ".*Uncaught`),
		because("destroys objects of static properties, which a kernel keeps",
			`static `, `Uncaught Error: Object not`),
	}
}

// phpEnd destroys the variables of a script, as PHP does at its end. A kernel keeps them.
const phpEnd = `foreach (array_reverse(array_keys($GLOBALS)) as $__name) {
    if (!preg_match('/^(_[A-Z]+|arg[vc])$/', $__name)) {
        unset($GLOBALS[$__name]);
    }
}
unset($__name);
gc_collect_cycles();
echo '';`

// sections splits a test at its lines --NAME--.
func sections(text string) map[string]string {
	parts := map[string]string{}
	name := ""
	head := regexp.MustCompile(`^--([_A-Z]+)--\s*$`)
	for line := range strings.Lines(text) {
		if m := head.FindStringSubmatch(line); m != nil {
			name = m[1]
			parts[name] = ""
			continue
		}
		parts[name] += line
	}
	return parts
}

// readTest makes a program of a test. Most tests that need a request, arguments or settings of the
// interpreter do not apply to a kernel.
func readTest(name, path string, parts map[string]string) *program {
	c := &cell{name: filepath.Base(path), file: path}
	p := &program{name: name, cells: []*cell{c}}
	code, ok := parts["FILE"]
	if !ok {
		code, ok = parts["FILEEOF"]
		code = strings.TrimSuffix(code, "\n")
	}
	// Most tests of a folder do not run, and an expression takes time to compile.
	want := sync.OnceValue(func() *regexp.Regexp { return pattern(parts) })
	known := map[string]bool{
		"TEST": true, "FILE": true, "FILEEOF": true, "EXPECT": true, "EXPECTF": true,
		"EXPECTREGEX": true, "EXTENSIONS": true, "CREDITS": true, "CREDIT": true, "CLEAN": true,
		"SKIPIF": true, "DESCRIPTION": true, "": true, "XFAIL": false,
	}
	for s := range parts {
		if !known[s] {
			c.skip = "needs a request, arguments or settings (" + s + ")"
		}
	}
	if !ok || parts["EXPECT"]+parts["EXPECTF"]+parts["EXPECTREGEX"] == "" {
		c.skip = "has no script or no expected text"
	}
	if !utf8.ValidString(code + parts["EXPECT"] + parts["EXPECTF"] + parts["EXPECTREGEX"]) {
		c.skip = "is not a text in UTF-8"
	}
	if c.skip != "" {
		return p
	}
	c.code, c.after = code, phpEnd
	c.check = func(o outcome) string {
		got := o.text
		if o.failed {
			kind := "Fatal error: Uncaught " + o.name
			if o.name == "FatalError" || o.name == "CompileError" {
				kind = "Fatal error"
			} else if o.name == "ParseError" {
				kind = "Parse error"
			}
			got += "\n" + kind + ": " + o.value
		}
		refused := o.failed && (o.name == "FatalError" || o.name == "ParseError") && compileError(parts)
		if got = phpText(got); !refused && !want().MatchString(got) {
			return wanted(want().String(), got)
		}
		return ""
	}
	return p
}

// compileError reports whether PHP refuses to compile the script. The kernel's parser refuses some
// scripts before PHP sees them, with a message of its own.
func compileError(parts map[string]string) bool {
	return regexp.MustCompile(`\A\s*(PHP )?(Fatal|Parse) error: `).MatchString(
		parts["EXPECT"]+parts["EXPECTF"]) && !strings.Contains(parts["EXPECTF"], "Uncaught")
}

// phpText removes the places of errors and blank lines, which a kernel shows in another form. A
// kernel prints a warning in another stream, without a line end before it, and names the last
// exception of a chain, where PHP begins with the first one.
func phpText(s string) string {
	for _, r := range []struct{ pattern, by string }{
		{`\r\n`, "\n"},
		{`Uncaught ([^\n]*\nStack trace:(\n#[^\n]*)+\s*\nNext )+`, "Uncaught "},
		{`(\n|^)Stack trace:(\n#[^\n]*)*\n +thrown( in [^\n]*)?`, ""},
		{`(?m)^PHP (Warning|Notice|Deprecated|Fatal error|Parse error): `, "$1: "},
		{`([^\n])((Warning|Notice|Deprecated|Fatal error): )`, "$1\n$2"},
		{`(?m)( in \S+:(\d+|%d))$`, ""},
		{`( in (cell \d+|[^ \n]+)( on)? line (\d+|%d))`, ""},
		{`(?m)(, line \d+| on line (\d+|%d))$`, ""},
		{`#(\d+|%d)\b`, "#N"},
		{`(?m), called and defined$`, ", called"},
		{`(?m)Uncaught ([\w\\]+):[ \t]*$`, "Uncaught $1"},
		{`[ \t]*\n\s*`, "\n"},
	} {
		s = regexp.MustCompile(r.pattern).ReplaceAllString(s, r.by)
	}
	return strings.TrimSpace(s)
}

// pattern returns the expected text as an expression, or as a text if it has one that is invalid.
func pattern(parts map[string]string) *regexp.Regexp {
	var source string
	switch {
	case parts["EXPECT"] != "":
		source = regexp.QuoteMeta(phpText(parts["EXPECT"]))
	case parts["EXPECTREGEX"] != "":
		source = phpText(parts["EXPECTREGEX"])
	case parts["EXPECTF"] != "":
		// Text between two %r is an expression already.
		for i, part := range strings.Split(phpText(parts["EXPECTF"]), "%r") {
			if i%2 == 1 {
				source += "(" + part + ")"
				continue
			}
			source += strings.NewReplacer(
				"%e", "/", "%s", `[^\r\n]+`, "%S", `[^\r\n]*`, "%a", `(?s:.+?)`, "%A", `(?s:.*?)`, "%w", `\s*`,
				"%i", `[+-]?\d+`, "%d", `\d+`, "%x", `[0-9a-fA-F]+`,
				"%f", `[+-]?(?:\d+|\d*\.\d+|\d+\.\d*)(?:[Ee][+-]?\d+)?`, "%c", `.`, "%0", `\x00`,
			).Replace(regexp.QuoteMeta(part))
		}
	}
	re, err := regexp.Compile(`\A(?:` + source + `)\z`)
	if err != nil {
		return regexp.MustCompile(`\A` + regexp.QuoteMeta(source) + `\z`)
	}
	return re
}

// preparePHP writes the files that a test reads: those of its folder that its script names, and the
// script itself under the name that __FILE__ has in a cell.
func preparePHP(ctx context.Context, b *box, p *program) error {
	for _, c := range p.cells {
		if c.code == "" {
			continue
		}
		entries, err := os.ReadDir(filepath.Dir(c.file))
		if err == nil {
			err = b.write(ctx, "cell.php", c.code)
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), ".phpt") ||
				!strings.Contains(c.code, e.Name()) {
				continue
			}
			data, err := os.ReadFile(filepath.Join(filepath.Dir(c.file), e.Name()))
			if err == nil {
				err = b.write(ctx, e.Name(), string(data))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// appliesPHP runs the script with php itself, with the settings of PHP's own runner.
func appliesPHP(ctx context.Context, b *box, p *program, c *cell) (string, error) {
	if err := b.write(ctx, "reference.php", c.code); err != nil {
		return "", err
	}
	out, _, err := b.run(ctx, "bash", "-c", `timeout 60 php -d display_errors=1 -d html_errors=0 \
-d error_reporting=-1 -d log_errors=0 -d zend.assertions=1 -d zend.exception_ignore_args=0 \
-d short_open_tag=0 reference.php 2>&1 </dev/null; rm -f reference.php`)
	if err != nil {
		return "", err
	}
	if c.check(outcome{text: out}) != "" {
		return "fails without a kernel", nil
	}
	return "", nil
}
