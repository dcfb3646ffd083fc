package main

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// jdkCorpus has the tests of the JDK that are one file with a main method, which fail by an
// exception.
func jdkCorpus() corpus {
	return corpus{language: "java", read: readJDK, applies: appliesJDK}
}

func readJDK(dir string) ([]*program, error) {
	test := regexp.MustCompile(`(?m)^\s*(\*|//)\s*@test\b`)
	main := regexp.MustCompile(`\bstatic\s+(final\s+)?void\s+main\s*\(`)
	// Such tests need other files, a network, a window, or options of the virtual machine.
	other := regexp.MustCompile(`@(modules|build|library|compile|enablePreview|requires|key)\b|` +
		`@run\s+(shell|junit|testng|driver|applet|main/(othervm|manual))|@run\s+main\s+\S+\s+\S|` +
		`(?m)^package\s`)
	return readAll(dir, func(name, _, text string) []*program {
		if !test.MatchString(text) || !main.MatchString(text) || other.MatchString(text) {
			return nil
		}
		c := &cell{name: path.Base(name), code: text}
		c.check = func(o outcome) string {
			if o.failed {
				return o.name + ": " + o.value + "\n" + o.trace
			}
			return ""
		}
		return []*program{{name: name, cells: []*cell{c}}}
	}, ".java")
}

// appliesJDK runs a program with the launcher.
func appliesJDK(ctx context.Context, b *box, _ *program, c *cell) (string, error) {
	name := "reference/" + strings.TrimSuffix(c.name, ".java") + ".java"
	if err := b.write(ctx, name, c.code); err != nil {
		return "", err
	}
	_, code, err := b.run(ctx, "bash", "-c", fmt.Sprintf(
		"timeout %d java -ea %s >/dev/null 2>&1 </dev/null; code=$?; rm -rf reference; exit $code",
		int(cellLimit.Seconds()), name))
	switch {
	case err != nil:
		return "", err
	case code != 0:
		return "fails without a kernel", nil
	}
	return "", nil
}

// jdkReasons explains the differences between a program in a cell and in a file.
func jdkReasons() []reason {
	return []reason{
		because("reads the name of its source file, which is that of the cell", `^\S*ChainedExceptions`, ""),
		because("expects parameters without names, which a kernel keeps, as JShell does",
			`^\S*WithoutParameters`, ""),
		because("computes for long; the kernel has only the first compiler", `FinalizeHalf`, "no end"),
	}
}
