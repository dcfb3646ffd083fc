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
	return corpus{language: "bash", read: readBash, prepare: prepareBash, applies: appliesBash}
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
		list = append(list, &program{name: relative(dir, script), cells: []*cell{c}, fresh: true})
	}
	return list, nil
}

// appliesBash runs a script with an error of syntax as a program: a cell with such an error runs
// nothing, and Bash runs what is before it.
func appliesBash(ctx context.Context, b *box, p *program, c *cell) (string, error) {
	said, _, err := b.run(ctx, "bash", "-O", "extglob", "-n", "tests/"+c.name)
	if err != nil || !bashErrors.MatchString(said) {
		return "", err
	}
	for _, code := range p.setup {
		if _, err := b.cell(ctx, code, &cell{}); err != nil {
			return "", err
		}
	}
	o, err := b.cell(ctx, "#!/bin/bash\n"+c.code, &cell{script: true})
	if err != nil || c.check(o) != "" {
		return "", err
	}
	return "have an error of syntax, which ends Bash's reading; they pass as programs", nil
}

var bashErrors = regexp.MustCompile(`syntax error|delimited by end-of-file`)

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
// its script, line numbers, the name of the outermost call, and that an interactive shell has no
// terminal.
func bashText(s string) string {
	for _, r := range []struct{ pattern, by string }{
		{`(?m)^(\./)?[\w./-]*?(bash|\.tests?|\.sub|cell-?\d*|\d+): (line \d+: )?`, ""},
		{`([\w./-]+(\.tests?|\.sub|cell-\d+)|\bbash): (line \d+: )?`, ""},
		{`(?m)^environment: (line \d+: )?`, ""},
		{`/tmp/\.bash-\w+/(cell|program)-\d+|\./\.cell-\d+|\./[\w-]+\.(tests?|sub)\b`, "SCRIPT"},
		{`(BASH_LINENO=\(\[0\]=)"\d+"`, "$1N"},
		{`(/tmp/[\w.]*)-\d+`, "$1-N"},
		{`/tmp/tmp\.\w+`, "TMP"},
		{`\bmain\b`, "source"},
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
	p.setup = []string{bashClean + "exec 2>&1; cd ~/tests; " + bashEnvironment}
	want, err := load(filepath.Join(dir, "tests", c.right))
	if err != nil {
		return err
	}
	script, _, err := b.run(ctx, "bash", "-c", bashClean+"cd ~/tests; "+bashEnvironment+
		"; timeout 240 bash ./"+c.name+" 2>&1 </dev/null")
	if err != nil {
		return err
	}
	typed, _, err := b.run(ctx, "bash", "-c", bashClean+"cd ~/tests; "+bashEnvironment+"; "+bashTyped,
		"typed", c.name)
	if err != nil {
		return err
	}
	// The text after the last prompt is from a DEBUG trap of the script.
	if _, after, found := strings.Cut(typed, "<prompt>"); found {
		typed = after
		if end := strings.LastIndex(typed, "<prompt>"); end >= 0 {
			typed = strings.ReplaceAll(typed[:end], "<prompt>", "")
		}
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

// bashClean removes what another run of the script has left, but nothing of the kernel.
const bashClean = "rm -rf /tmp/[!.]*; "

// bashTyped runs a script in an interactive shell with the options of the kernel's, which reads it
// from its input and has it in its history. The last command ends the shell without a message.
const bashTyped = `PS1= PS2= timeout 240 bash --norc --noprofile --noediting -i 2>&1 <<END
set +H +m +o history -E; shopt -s extglob expand_aliases; FUNCNEST=4000; history -s -- "\$(<./$1)"; PS1="<prompt>"
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
