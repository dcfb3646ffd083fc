package main

import (
	"context"
	"fmt"
	"strings"
)

// program is a list of cells that run in one kernel, in order.
type program struct {
	name string
	// setup has cells that run before the others and are not counted.
	setup []string
	cells []*cell
	// dir is the folder of its file, for a corpus with more files.
	dir string
	// fresh asks for a new kernel.
	fresh bool
}

// cell is a piece of a program, and its expected result.
type cell struct {
	name, code string
	// whole runs the cell as a program: it ends after its timers and servers.
	whole bool
	// script gives the cell the time of a whole script.
	script bool
	// check returns why the outcome is not what the corpus wants, or nothing.
	check func(outcome) string
	// after is a cell that runs behind one that failed. Its output may be the end of the text.
	after string
	// skip is the reason for which the cell does not apply, if it does not.
	skip string
	// file and right are paths: of the program, and of its expected text.
	file, right string
}

// outcome is the result of a cell.
type outcome struct {
	// text is both streams and the text of results, in their order.
	text string
	// stdout is the standard output alone.
	stdout string
	// values has the text of results and displays, data their rows.
	values []string
	data   []string
	// name, value and trace describe the error of a cell that failed.
	name, value, trace string
	failed             bool
}

// String returns the outcome for reports.
func (o outcome) String() string {
	if !o.failed {
		return o.text
	}
	return strings.TrimSpace(o.text + "\n" + o.name + ": " + o.value + "\n" + o.trace)
}

// and returns the outcome of two cells, one after the other.
func (o outcome) and(more outcome) outcome {
	if more.failed {
		o.failed, o.name, o.value, o.trace = true, more.name, more.value, more.trace
	}
	o.text += more.text
	o.stdout += more.stdout
	return o
}

// corpus is a set of programs in one language.
type corpus struct {
	// language is the name of the kernel.
	language string
	// read finds the programs in a folder.
	read func(dir string) ([]*program, error)
	// references, unless nil, runs all programs without a kernel, before the others. It may set the
	// fields check and skip of their cells.
	references func(ctx context.Context, b *box, programs []*program) error
	// prepare, unless nil, runs before the cells of a program. It may set their fields check and skip.
	prepare func(ctx context.Context, b *box, p *program) error
	// applies, unless nil, runs a cell that failed without a kernel. It returns the reason why the cell
	// does not apply to this image, or nothing.
	applies func(ctx context.Context, b *box, p *program, c *cell) (string, error)
}

// corpora returns the corpora by their names.
func corpora() map[string]corpus {
	return map[string]corpus{
		"bash": bashCorpus(), "go": goCorpus(), "java": javaCorpus(), "jdk": jdkCorpus(),
		"jshell": jshellCorpus(), "node": nodeCorpus(), "php": phpCorpus(), "python": pythonCorpus(), "sql": sqlCorpus(),
	}
}

// wanted returns a reason with the beginning of both texts.
func wanted(want, got string) string {
	return fmt.Sprintf("wanted %q, got %q", short(want), short(got))
}

// short returns the beginning of a text.
func short(s string) string {
	const most = 1500
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
