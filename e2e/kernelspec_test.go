package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// debianTemplate builds a template of deploy/templates in a server. Its image is kept in the cache
// of this machine.
func debianTemplate(ctx context.Context, t *testing.T, s *Server, name string) protocol.Template {
	t.Helper()
	root, err := filepath.Abs("..")
	check(t, err)
	image := filepath.Join(root, "bin", "templates", name)
	if out, err := exec.CommandContext(ctx, filepath.Join(root, "deploy", "templates", "build"),
		name, image).CombinedOutput(); err != nil {
		t.Fatalf("the image of %s: %v\n%s", name, err, out)
	}
	out, err := command(ctx, t, s, "template", "build",
		filepath.Join(root, "deploy", "templates", name, "template.yaml"))
	if err != nil {
		t.Fatalf("the template %s: %v\n%s", name, err, out)
	}
	c, err := wire.New(s.URL, s.Token, wire.Options{})
	check(t, err)
	v, err := c.Template(ctx, name)
	check(t, err)
	return v
}

// TestKernelspec uses the Jupyter kernel of R, which the server knows only from a template's image.
func TestKernelspec(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	v := debianTemplate(ctx, t, server, "r")
	if len(v.Kernelspecs) != 1 {
		t.Fatalf("the template's kernelspecs: %+v", v.Kernelspecs)
	}
	if r := v.Kernelspecs[0]; r.Name != "r" || r.Display != "R" || r.Kernelspec != "ir" ||
		strings.Join(r.Extensions, "") != ".r" || !strings.HasPrefix(r.Logo, "data:image/") {
		t.Errorf("the kernelspec of R: %+v", r)
	}
	t.Run("cells", func(t *testing.T) { kernelspecCells(t) })
	t.Run("hibernate", func(t *testing.T) { kernelspecHibernates(t) })
	t.Run("fork", func(t *testing.T) { kernelspecForks(t) })
}

func kernelspecCells(t *testing.T) {
	t.Parallel()
	s := openWith(t, server, protocol.SessionCreate{Template: "r", Language: "ir"})
	out := s.run("ok", "x <- data.frame(a = 1:2); x; plot(x$a, main = 'two')")
	shown := out.messages[message.DisplayDataType]
	if len(shown) != 2 {
		t.Fatalf("a table and a plot: %+v", out)
	}
	contains(t, text(t, shown[0], "text/html"), "<table", "data.frame: 2")
	contains(t, text(t, shown[1], "image/png"), "iVBORw0KGgo")
	out = s.run("error", "stop('no')")
	contains(t, out.reply.EValue, "no")
	// A file runs as a program.
	s.run("ok", "writeLines('cat(commandArgs(TRUE), 6 * 7)', 'six.r')")
	ch, err := s.conn.OpenChannel(s.ctx, protocol.ChannelOpen{
		Session: s.id, Kind: "process", File: "six.r", Args: []string{"is"},
	})
	check(t, err)
	view, err := s.conn.Attach(s.ctx, s.id, ch.ID, wire.AttachOptions{})
	check(t, err)
	if got := readAll(t, s, view); got != "is 42" {
		t.Errorf("the program printed %q", got)
	}
	// Code that ends the kernel gets another one.
	if out := s.run("ok", "quit(status = 3)"); out.reply.ExitCode == nil {
		t.Errorf("a cell that ends the kernel: %+v", out)
	}
	s.run("ok", "1")
}

// kernelspecHibernates hibernates a session while its kernel prints. The connections between the
// driver and the kernel are Unix sockets of one sandbox and survive: no line is lost.
func kernelspecHibernates(t *testing.T) {
	t.Parallel()
	s := openWith(t, server, protocol.SessionCreate{Template: "r"})
	const lines = 60
	cell := s.begin(fmt.Sprintf(
		"for (i in 1:%d) { cat(i, ''); flush(stdout()); Sys.sleep(0.05) }; x <- 41", lines))
	hibernated := false
	out := s.collect(cell, func(r frame.Record) {
		if r.Kind != frame.KindStdout || hibernated {
			return
		}
		hibernated = true
		_, err := s.client.HibernateSession(s.ctx, s.id)
		check(t, err)
		_, err = s.client.ResumeSession(s.ctx, s.id)
		check(t, err)
	})
	var want strings.Builder
	for i := range lines {
		fmt.Fprint(&want, i+1, " ")
	}
	if out.stdout != want.String() || out.reply.Status != "ok" {
		t.Errorf("a cell over hibernation printed %q, %+v", out.stdout, out.reply)
	}
	if got := s.run("ok", "cat(x + 1)").stdout; got != "42" {
		t.Errorf("after that, x + 1 is %s", got)
	}
	// The resumed kernel can be interrupted.
	cell = s.begin("cat('begun'); while (TRUE) Sys.sleep(0.05)")
	out = s.collect(cell, func(r frame.Record) {
		if r.Kind == frame.KindStdout {
			check(t, s.kernel.Interrupt(s.ctx, time.Minute))
		}
	})
	if out.reply.Status != "error" {
		t.Errorf("an interrupted cell: %+v", out.reply)
	}
	if got := s.run("ok", "cat(x)").stdout; got != "41" {
		t.Errorf("after an interrupt, x is %s", got)
	}
}

// kernelspecForks copies a session. The copies have the same variables and different randomness.
func kernelspecForks(t *testing.T) {
	t.Parallel()
	s := openWith(t, server, protocol.SessionCreate{Template: "r"})
	s.run("ok", "x <- 41; invisible(runif(1))")
	f, err := s.client.ForkSession(s.ctx, protocol.SessionFork{Session: s.id, Count: 2})
	check(t, err)
	seen := map[string]bool{}
	for _, id := range []string{s.id, f.Sessions[0].ID, f.Sessions[1].ID} {
		if id != s.id {
			t.Cleanup(func() { _ = s.client.DeleteSession(context.WithoutCancel(s.ctx), id) })
		}
		out := s.at(id).run("ok", "cat(x, runif(1, 0, 1e9))").stdout
		if !strings.HasPrefix(out, "41 ") || seen[out] {
			t.Errorf("a copy printed %q", out)
		}
		seen[out] = true
	}
}
