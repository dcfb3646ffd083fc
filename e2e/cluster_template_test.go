package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// templateObjects returns the names of the objects of templates in the bucket.
func templateObjects(t *testing.T, s *blobtest.Server) []string {
	t.Helper()
	return slices.DeleteFunc(objects(t, s), func(name string) bool {
		return !strings.Contains(name, "/templates/")
	})
}

// drawn is a template whose variable and file differ with each build.
const drawn = `
name: mine
languages: [python]
files: [{from: kept, to: kept}]
run: ["cat /proc/sys/kernel/random/uuid > stamp; echo this is build %d"]
code: "import uuid; v = uuid.uuid4().hex"
`

// TestClusterTemplates builds a template on one node and kills the node. The other node starts
// sessions of the same build, with its variables and files. While the store is away, it uses the
// template that it has. Then the template is replaced and deleted: no object remains, and the first
// node does not bring it back.
func TestClusterTemplates(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	c, bucket := newStoreCluster(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "kept"), "a file")
	build := func(srv *Server, n int) string {
		t.Helper()
		recipe := write(t, filepath.Join(dir, "mine.yaml"), fmt.Sprintf(drawn, n))
		out, err := command(deadline(t), t, srv, "template", "build", recipe)
		if err != nil {
			t.Fatalf("the build: %v\n%s", err, out)
		}
		return out
	}
	contains(t, build(c.Servers[0], 1), "this is build 1", "ready:")
	gone, stays := c.Servers[0], c.Servers[1]
	if len(there(t, gone, "templates")) == 0 {
		gone, stays = stays, gone
	}
	if len(there(t, stays, "templates")) > 0 {
		t.Fatal("both nodes have built the template, so the test proves nothing")
	}
	of := protocol.SessionCreate{Template: "mine"}
	drawnBy := func(s *session) string {
		t.Helper()
		return s.run("ok", "v, open('stamp').read(), open('kept').read()").result(t)
	}
	first := openAs(t, stays, of)
	g := first.client
	want := drawnBy(first)
	eventually(t, "the build in the store", func() bool {
		names := strings.Join(templateObjects(t, bucket), " ")
		return strings.Contains(names, "/built-") && strings.Contains(names, "/ready")
	})

	syscall.Kill(gone.PID(), syscall.SIGSTOP) // so that it does not start the node again
	gone.Signal(syscall.SIGKILL)
	gone.Halt(syscall.SIGKILL)
	if got := drawnBy(openAs(t, stays, of)); got != want {
		t.Errorf("a session on the other node has %s, want %s", got, want)
	}
	eventually(t, "a complete list without the killed node", func() bool {
		all, err := g.Templates(first.ctx)
		return err == nil && len(all) == 1 && all[0].State == "ready" && all[0].Stored
	})
	v, err := g.Template(first.ctx, "mine")
	if err != nil || !strings.Contains(v.Log, "this is build 1") {
		t.Errorf("the template of the killed node: %+v, %v", v, err)
	}

	bucket.Kill()
	if got := drawnBy(openAs(t, stays, of)); got != want {
		t.Errorf("without the store a session has %s, want %s", got, want)
	}
	if _, err := g.Templates(first.ctx); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a list without the store: %v", err)
	}
	if err := g.DeleteTemplate(first.ctx, "mine"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a deletion without the store: %v", err)
	}
	bucket.Run(t)

	before := templateObjects(t, bucket)
	contains(t, build(stays, 2), "this is build 2")
	if got := drawnBy(openAs(t, stays, of)); got == want {
		t.Errorf("a session of the second definition has %s too", got)
	}
	for _, name := range before {
		if slices.Contains(templateObjects(t, bucket), name) {
			t.Errorf("the bucket still has %s of the first definition", name)
		}
	}

	// The killed node has the first definition. It fetches the second one.
	check(t, gone.Boot(deadline(t)))
	second := drawnBy(openAs(t, stays, of))
	eventually(t, "a session on the node that came back", func() bool {
		s := openAs(t, stays, of)
		if got := drawnBy(s); got != second {
			t.Fatalf("a session has %s, want %s", got, second)
		}
		return c.Servers[c.owner(s.id)] == gone
	})
	check(t, g.DeleteTemplate(first.ctx, "mine"))
	if err := g.DeleteTemplate(first.ctx, "mine"); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is deleted again: %v", err)
	}
	if left := templateObjects(t, bucket); len(left) > 0 {
		t.Errorf("the bucket still has %v", left)
	}
	for _, srv := range c.Servers {
		if left := there(t, srv, "templates"); len(left) > 0 {
			t.Errorf("a node still has %v", left)
		}
		again, err := wire.New(srv.URL, srv.Token, wire.Options{})
		check(t, err)
		if _, err := again.CreateSession(first.ctx, of); !fault.Is(err, fault.NotFound) {
			t.Errorf("a session of a deleted template: %v", err)
		}
	}
}
