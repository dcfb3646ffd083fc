package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// bashCorpus has Bash's own tests: scripts, and what they print. The folder is that of Bash's
// source. A script is one cell. It must print what bash prints for it, as a script or in an
// interactive shell with the kernel's options that reads it: an error of an expansion ends such a
// reading.
func bashCorpus() corpus {
	return corpus{language: "bash", read: readBash, prepare: prepareBash}
}

func readBash(dir string) ([]*program, error) {
	tests := filepath.Join(dir, "tests")
	files, err := find(tests, ".right")
	if err != nil {
		return nil, err
	}
	var list []*program
	for _, path := range files {
		script := ""
		for _, ending := range []string{".tests", ".test", ".sub"} {
			if _, err := os.Stat(strings.TrimSuffix(path, ".right") + ending); err == nil {
				script = strings.TrimSuffix(path, ".right") + ending
				break
			}
		}
		if script == "" {
			continue
		}
		code, err := load(script)
		if err != nil {
			return nil, err
		}
		c := &cell{
			name: filepath.Base(script), code: code,
			file: dir, right: filepath.Base(path), script: true,
		}
		list = append(list, &program{name: relative(dir, script), cells: []*cell{c}})
	}
	return list, nil
}

// bashReasons are differences that the kernel has on purpose, see langs/bash/README.md.
func bashReasons() []reason {
	return []reason{
		because("has an error of syntax, or sets a mode that changes the syntax: a cell is checked first",
			"", `^SyntaxError`),
		because("prints the calls on the stack, which have the kernel's", `/dbg-support`, ""),
		because("prints options, descriptors or jobs of its own shell, which is interactive",
			`/(shopt|varenv|vredir|trap)\.tests`, ""),
		because("restricts its own shell, which cannot report its end", `/rsh\.tests`, ""),
		because("waits for jobs or time limits for longer than a cell may run",
			`/(ifs-posix|jobs|read)\.tests`, `^no end`),
	}
}

// bashCheck compares with each of some texts.
func bashCheck(texts ...string) func(outcome) string {
	return func(o outcome) string {
		got := bashText(o.text)
		for _, want := range texts {
			if bashText(want) == got {
				return ""
			}
		}
		if o.failed && o.name == "SyntaxError" {
			return o.name + ": " + o.value
		}
		w := bashText(texts[len(texts)-1])
		return wanted(difference(w, got), difference(got, w))
	}
}

// bashText removes what differs by the way in which a script is run: the name of the shell and of
// its script, line numbers, and that an interactive shell has no terminal.
func bashText(s string) string {
	for _, r := range []struct{ pattern, by string }{
		{`(?m)^(\./)?[\w./-]*?(bash|\.tests?|\.sub|cell-?\d*|\d+): (line \d+: )?`, ""},
		{`([\w./-]+(\.tests?|\.sub|cell-\d+)|\bbash): (line \d+: )?`, ""},
		{`(?m)^environment: (line \d+: )?`, ""},
		{`/tmp/\.bash-\w+/cell-\d+|\./[\w-]+\.(tests?|sub)\b`, "SCRIPT"},
		{`(BASH_LINENO=\(\[0\]=)"\d+"`, "$1N"},
		{`(/tmp/[\w.]*)-\d+`, "$1-N"},
		{`(?m)^(cannot set terminal process group.*|no job control in this shell)\n`, ""},
		{`line \d+`, "line N"},
		{`[ \t]+\n`, "\n"},
	} {
		s = regexp.MustCompile(r.pattern).ReplaceAllString(s, r.by)
	}
	return strings.TrimSpace(s)
}

// difference returns the lines of a that are not in b.
func difference(a, b string) string {
	have := map[string]int{}
	for line := range strings.Lines(b) {
		have[strings.TrimSpace(line)]++
	}
	var rest strings.Builder
	for line := range strings.Lines(a) {
		if have[strings.TrimSpace(line)]--; have[strings.TrimSpace(line)] < 0 {
			rest.WriteString(line)
		}
	}
	return rest.String()
}

// prepareBash writes the folder of tests into the session, and makes it the working directory.
func prepareBash(ctx context.Context, b *box, p *program) error {
	dir := p.cells[0].file
	if _, code, err := b.run(ctx, "test", "-d", "tests"); err != nil || code != 0 {
		if err != nil {
			return err
		}
		if err := writeTests(ctx, b, dir); err != nil {
			return err
		}
	}
	c := p.cells[0]
	// With one stream, its text is in the order in which it was written, as that of the references.
	p.setup = []string{"exec 2>&1; cd ~/tests; " + bashEnvironment}
	want, err := load(filepath.Join(dir, "tests", c.right))
	if err != nil {
		return err
	}
	script, _, err := b.run(ctx, "bash", "-c", "cd ~/tests; "+bashEnvironment+
		"; timeout 240 bash ./"+c.name+" 2>&1 </dev/null")
	if err != nil {
		return err
	}
	typed, _, err := b.run(ctx, "bash", "-c", "cd ~/tests; "+bashEnvironment+"; "+bashTyped,
		"typed", c.name)
	if err != nil {
		return err
	}
	if bashCheck(want)(outcome{text: script}) != "" {
		want = script // an environment in which the script prints something else
	}
	c.check = bashCheck(want, typed)
	return nil
}

// bashEnvironment has the variables that the scripts need.
const bashEnvironment = `export THIS_SH=bash BUILD_DIR=~ TMPDIR=/tmp BASH_TSTOUT=/tmp/out
export LC_ALL=C.UTF-8 PATH=~/tests:$PATH`

// bashTyped runs a script in an interactive shell with the options of the kernel's, which reads it
// from its input. The last command ends the shell without a message.
const bashTyped = `PS1= PS2= timeout 240 bash --norc --noprofile --noediting -i 2>&1 <<END
set +H +m +o history -E; shopt -s extglob expand_aliases; FUNCNEST=4000
. ./$1 </dev/null
exec true
END`

// writeTests packs the folder of tests with the three programs that they use, which it compiles.
func writeTests(ctx context.Context, b *box, dir string) error {
	tmp, err := os.MkdirTemp("", "corpus-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, name := range []string{"recho", "zecho", "printenv"} {
		out, err := exec.CommandContext(ctx, "gcc", "-w", "-static", "-DHAVE_STRING_H", "-DHAVE_STDLIB_H",
			"-DHAVE_UNISTD_H", "-I", dir, "-I", dir+"/include", "-o", filepath.Join(tmp, name),
			filepath.Join(dir, "support", name+".c")).CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
	}
	tar := exec.CommandContext(ctx, "tar", "c", "-C", tmp, "recho", "zecho", "printenv", "-C",
		filepath.Join(dir, "tests"), ".")
	archive, err := tar.StdoutPipe()
	if err != nil {
		return err
	}
	if err := tar.Start(); err != nil {
		return err
	}
	if _, err := b.client.Mkdir(ctx, b.id, "tests"); err != nil {
		return err
	}
	_, err = b.client.UploadTree(ctx, b.id, "tests", archive)
	return errors.Join(err, tar.Wait())
}
