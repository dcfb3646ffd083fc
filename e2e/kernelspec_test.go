package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/e2e/cells"
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
	file := filepath.Join(root, "deploy", "templates", name, "template.yaml")
	buildTemplate(ctx, t, s, file)
	c, err := wire.New(s.URL, s.Token, wire.Options{})
	check(t, err)
	v, err := c.Template(ctx, name)
	check(t, err)
	return v
}

// imageBuild is held during a build of an image: a tenant has one at a time.
var imageBuild sync.Mutex

// buildTemplate builds a template with an image from a file.
func buildTemplate(ctx context.Context, t *testing.T, s *Server, file string) {
	t.Helper()
	imageBuild.Lock()
	defer imageBuild.Unlock()
	// The server may still count a build whose command has ended.
	eventually(t, "a build of an image is allowed", func() bool {
		out, err := command(ctx, t, s, "template", "build", file)
		if err != nil && !strings.Contains(out, "as many builds of images") {
			t.Fatalf("the template of %s: %v\n%s", file, err, out)
		}
		return err == nil
	})
}

// TestKernelspec uses the Jupyter kernel of R, which the server knows only from a template's image.
func TestKernelspec(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
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
	t.Run("librechat", func(t *testing.T) {
		c := &libreChat{t, ctx, map[string]string{"X-API-Key": server.Token}}
		if r := c.run("r", "png('plot.png'); plot(1:3); invisible(dev.off()); cat(6 * 7)"); r.Stdout !=
			"42" || len(r.Files) != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("conformance", func(t *testing.T) { kernelspecConforms(t, "r") })
	t.Run("e2b", func(t *testing.T) { kernelspecByE2B(t) })
}

// kernelspecByE2B runs R through E2B's interpreter, by the name of the language and by that of its
// context.
func kernelspecByE2B(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var made struct{ SandboxID, EnvdAccessToken string }
	status, err := server.JSON(ctx, "POST", "/v2/sandboxes",
		map[string]any{"templateID": "r", "timeout": 300}, &made)
	if err != nil || status != http.StatusCreated {
		t.Fatal(status, err)
	}
	defer func() {
		_, _ = server.JSON(context.WithoutCancel(ctx), "DELETE", "/sandboxes/"+made.SandboxID, nil, nil)
	}()
	execute := func(field, value, code string) (int, string) {
		body, err := json.Marshal(map[string]string{field: value, "code": code})
		check(t, err)
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/execute",
			bytes.NewReader(body))
		check(t, err)
		for name, v := range map[string]string{
			"Content-Type": "application/json", "E2b-Sandbox-Id": made.SandboxID,
			"E2b-Sandbox-Port": "49999", "X-Access-Token": made.EnvdAccessToken,
		} {
			req.Header.Set(name, v)
		}
		res, err := http.DefaultClient.Do(req)
		check(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		check(t, err)
		return res.StatusCode, string(text)
	}
	if status, text := execute("language", "R", "x <- 41"); status != http.StatusOK ||
		!strings.Contains(text, `"end_of_execution"`) || strings.Contains(text, `"error"`) {
		t.Errorf("code of the language: %d %s", status, text)
	}
	if status, text := execute("context_id", "r", "cat(x + 1)"); status != http.StatusOK ||
		!strings.Contains(text, `"text":"42"`) {
		t.Errorf("code of the context: %d %s", status, text)
	}
	if status, _ := execute("context_id", "klingon", "1"); status != http.StatusNotFound {
		t.Errorf("a context of no language: %d", status)
	}
}

// kernelspecConforms runs the conformance cells of a language that only a template has, and
// interrupts it at any moment.
func kernelspecConforms(t *testing.T, language string) {
	t.Parallel()
	suite, err := cells.Load("../langs/jupyter/testdata", language)
	check(t, err)
	if err := suite.Check(); err != nil {
		t.Error(err)
	}
	c, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	runSuite(t, c, suite, language, func(cells.SuiteFile) {})
	t.Run("any moment", func(t *testing.T) { runInterrupts(t, c, language, language) })
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
