package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// nodeCorpus has the examples in Node's documentation. An example must print what node prints for
// the same file.
func nodeCorpus() corpus {
	return corpus{
		language: "javascript", read: readNode, prepare: prepareNode, applies: appliesNode,
	}
}

func readNode(dir string) ([]*program, error) {
	block := regexp.MustCompile("(?ms)^```(js|cjs|mjs)\n(.*?)^```")
	module := regexp.MustCompile(`(?m)^(import |export |const .*await |await |.*import\.meta)`)
	return readAll(dir, func(path, _, text string) (list []*program) {
		for i, m := range block.FindAllStringSubmatch(text, -1) {
			ending := "cjs"
			if m[1] == "mjs" || m[1] == "js" && module.MatchString(m[2]) {
				ending = "mjs"
			}
			c := &cell{name: fmt.Sprint(i + 1), code: m[2], whole: true}
			c.file = "example." + ending
			// One program has one example, since examples do not build on each other.
			list = append(list, &program{
				name: path + "/" + c.name, cells: []*cell{c},
			})
		}
		return list
	}, ".md", ".md.gz")
}

// nodeReasons are differences that the kernel has on purpose.
func nodeReasons() []reason {
	return []reason{
		because("prints the groups of its process", `getgroups`, ""),
		because("prints numbers of asynchronous operations", `executionAsyncId`, `eid \d+`),
	}
}

// nodeReference removes the example before, and runs a file twice. Its first line of output has both
// exit codes, and whether the outputs agree.
const nodeReference = `find ~ -maxdepth 1 -name 'example.*' ! -name "$1" -delete
rm -rf /tmp/ref; mkdir /tmp/ref; cd /tmp/ref
for i in 1 2; do
  mkdir $i; cp ~/"$1" $i; (cd $i; timeout 5 node "$1" >../out$i 2>../err$i </dev/null); code=$?
  [ $code = 0 ] || { echo "exit $code"; tail -c 600 err$i; exit; }
done
cmp -s out1 out2 && echo same || echo differs
cat out1`

func prepareNode(ctx context.Context, b *box, p *program) error {
	for _, c := range p.cells {
		if err := b.write(ctx, c.file, c.code); err != nil {
			return err
		}
		out, _, err := b.run(ctx, "bash", "-c", nodeReference, "reference", c.file)
		if err != nil {
			return err
		}
		verdict, want, _ := strings.Cut(out, "\n")
		switch verdict {
		case "same", "differs":
		case "exit 124":
			c.skip, c.code = "does not end", ""
			continue
		default:
			c.skip, c.code = "fails without a kernel", ""
			continue
		}
		c.check = func(o outcome) string {
			switch {
			case o.failed:
				return o.name + ": " + o.value
			case verdict == "same" && strings.TrimSpace(o.stdout) != strings.TrimSpace(want):
				return wanted(want, o.stdout)
			}
			return ""
		}
	}
	return nil
}

// nodeText runs the text of an example, without a file.
const nodeText = `rm -rf /tmp/ref; mkdir /tmp/ref; cd /tmp/ref
type=commonjs; [[ $1 != *.mjs ]] || type=module
timeout 5 node --input-type=$type --eval="$(cat ~/"$1")" 2>/dev/null </dev/null`

// appliesNode finds examples that need their own file, such as those that run it in a thread: node
// itself gives them another outcome if it gets their text instead.
func appliesNode(ctx context.Context, b *box, _ *program, c *cell) (string, error) {
	out, code, err := b.run(ctx, "bash", "-c", nodeText, "text", c.file)
	if err != nil || c.check(outcome{stdout: out, failed: code != 0}) == "" {
		return "", err
	}
	return "needs its own file", nil
}
