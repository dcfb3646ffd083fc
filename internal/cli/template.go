package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
)

func templateCommand() command {
	return command{
		name: "template", args: "build FILE | ls | inspect NAME | rm NAME...", short: "Make, list, show and remove templates",
		long: `
A template is what sessions start from, warm: packages, files, environment, code
that has run. FILE is YAML; paths in it are relative to its folder:

  name: data
  description: what it is for
  image: ./image              # an OCI layout, a tar of one or of docker save, or
                              # a name in a registry; without it, the server's
  languages: [python]         # the first is warm
  env: {STAGE: test}
  limits: {memory: 2GiB, cpus: 1, processes: 256, open_files: 1024, disk: 1GiB,
           tmp: 64MiB, inodes: 10000, output: 1MiB, cell: 60s}
  files:
    - {from: ./lib, to: lib}  # into /home/user unless absolute
  packages: {python: [tinydb], javascript: [], go: [], php: [],
             java: ["com.google.code.gson:gson:2.11.0", a.jar], from: ./wheels}
  run: ["python3 -m compileall lib"]
  code: import lib
  bare: false                 # true leaves out pandas and the like: lighter
  volumes: ["shared:/data:ro"]       # that its sessions have, as for --volume
  build_network: {allow: [pypi.org, files.pythonhosted.org]}  # or true
  session_network: false             # of its sessions that do not say

Packages are installed from the files in the folder that from names and, with
build_network, from the languages' indexes. That is for packages and run alone:
a session has no network unless it asks for one, or session_network says so.
build waits until the template is ready, unless --detach.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			if len(args) == 0 || strings.HasPrefix(args[0], "-") {
				if err := parse(set, args, 0, 0); err != nil {
					return err
				}
				return usagef("say build, ls, inspect or rm")
			}
			switch word, args := args[0], args[1:]; word {
			case "build":
				return buildTemplate(ctx, a, set, args)
			case "ls":
				return listTemplates(ctx, a, set, args)
			case "inspect":
				return inspectTemplate(ctx, a, set, args)
			case "rm":
				return eachSession("template rm", "", (*client.Client).DeleteTemplate).run(ctx, a, set, args)
			default:
				return usagef("there is no template %s: build, ls, inspect or rm", word)
			}
		},
	}
}

func buildTemplate(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	detach := set.Bool("detach", false, "Do not wait until it is ready.")
	if err := parse(set, args, 1, 1); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	r, err := readTemplateFile(set.Arg(0))
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := r.pack(ctx, out)
		packed <- err
		_ = out.CloseWithError(err) // nil is the end
	}()
	t, err := c.BuildTemplate(ctx, r.Name, in)
	_ = in.CloseWithError(io.ErrClosedPipe)
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return perr
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "stored %s\n", t.Name)
	if *detach {
		return nil
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	shown := ""
	show := func() {
		fmt.Fprint(a.Out, screened(news(shown, t.Log)))
		shown = t.Log
	}
	for t.State == "building" {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if t, err = c.Template(ctx, t.Name); err != nil {
			return err
		}
		show()
	}
	if shown != "" && !strings.HasSuffix(shown, "\n") {
		fmt.Fprintln(a.Out)
	}
	if t.State == "failed" {
		return &fault.Error{Kind: fault.Conflict, Op: "template.build", Message: t.Error}
	}
	fmt.Fprintf(a.Out, "ready: sandgate sessions create --template %s\n", t.Name)
	return nil
}

// news is what a log has more than it had. Of a long one only the end is known:
// it goes on behind the last line that was shown.
func news(shown, log string) string {
	if more, ok := strings.CutPrefix(log, shown); ok {
		return more
	}
	last := shown[max(0, len(shown)-256):]
	if _, more, ok := strings.Cut(log, last); ok {
		return more
	}
	return log
}

// screened keeps what a build has printed from steering the terminal.
func screened(s string) string {
	var out strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		text, end := strings.CutSuffix(line, "\n")
		out.WriteString(printable(strings.TrimSuffix(text, "\r")))
		if end {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func listTemplates(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	if err := parse(set, args, 0, 0); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	all, err := c.Templates(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	if len(all) > 0 {
		fmt.Fprintln(w, "NAME\tSTATE\tLANGUAGES\tAGE\tSIZE\tPOOL\tDESCRIPTION")
	}
	for _, t := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d KiB\t%d of %d\t%s\n", t.Name, t.State, strings.Join(t.Languages, ","), since(t.CreatedMS), (t.Bytes+1023)/1024, t.Ready, t.Size, printable(t.Spec.Description))
	}
	return w.Flush()
}

func inspectTemplate(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	if err := parse(set, args, 1, 1); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	t, err := c.Template(ctx, set.Arg(0))
	if err != nil {
		return err
	}
	return a.printJSON(t)
}
