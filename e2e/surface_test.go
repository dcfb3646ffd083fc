package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// buildWithSurface builds the server with one more surface: a line in the
// registry of surfaces and the import of its package.
func buildWithSurface(t *testing.T, line, pkg string) (program string) {
	t.Helper()
	registry, err := filepath.Abs("../gateway/surfaces.go")
	check(t, err)
	source, err := os.ReadFile(registry)
	check(t, err)
	const list, imports = "[]surface.Surface{\n", "import (\n"
	if strings.Count(string(source), list) != 1 {
		t.Fatalf("%s has no list of surfaces", registry)
	}
	changed := strings.Replace(string(source), list, list+line+"\n", 1)
	changed = strings.Replace(changed, imports, imports+`"`+pkg+`"`+"\n", 1)
	dir := t.TempDir()
	replaced, overlay := filepath.Join(dir, "surfaces.go"), filepath.Join(dir, "overlay.json")
	check(t, os.WriteFile(replaced, []byte(changed), 0o644))
	table, err := json.Marshal(map[string]any{"Replace": map[string]string{registry: replaced}})
	check(t, err)
	check(t, os.WriteFile(overlay, table, 0o644))
	program = filepath.Join(dir, "sandgate")
	build := buildCommand("-overlay", overlay, "-ldflags", "-s -w", "-o", program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// buildCommand builds the server with the flags of the Makefile, so that the compiler's cache has
// most packages, and with further arguments.
func buildCommand(args ...string) *exec.Cmd {
	args = append(append([]string{"build", "-trimpath"}, args...), "../cmd/sandgate")
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return build
}

// TestAddSurface adds a surface of 30 lines to the server by one line in the
// registry, and runs code in a real sandbox through it: the output streams, and
// the surface has the server's authorization.
func TestAddSurface(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	program := buildWithSurface(t, "text.Surface{Node: surfaceNode{g}},",
		"github.com/sandgate/sandgate/gateway/surface/text")
	image, err := Bin("image.erofs")
	check(t, err)
	runsc, err := Bin("runsc")
	check(t, err)
	// A program outside bin does not find its image and runtime by itself.
	settings := "pool: {size: 1, languages: [python]}\ngateway: {self_check: 0}\nimage: " + image +
		"\nrunsc: " + runsc
	srv, err := Start(ctx, settings)
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	check(t, srv.Halt(syscall.SIGTERM))
	srv.program = program
	check(t, srv.Boot(ctx))
	s := open(t, srv)
	path := "/text/" + s.id
	post := func(code string) *http.Response {
		t.Helper()
		r, err := srv.Do(ctx, "POST", path, []byte(code))
		check(t, err)
		t.Cleanup(func() { r.Body.Close() })
		return r
	}

	r := post(
		"import os, time\nprint('early', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('late')")
	in := bufio.NewReader(r.Body)
	if line, err := in.ReadString('\n'); err != nil || r.StatusCode != 200 || line != "early\n" {
		t.Fatalf("the first line is %q with status %d: %v", line, r.StatusCode, err)
	}
	_, err = s.client.Upload(ctx, s.id, "go", 0, strings.NewReader(""))
	check(t, err)
	if rest, err := io.ReadAll(in); err != nil || string(rest) != "late\n" {
		t.Fatalf("the rest is %q: %v", rest, err)
	}

	// A client that disconnects interrupts its code, and the kernel keeps its state.
	r = post("kept = 41\nprint('begun', flush=True)\nwhile True: pass")
	if _, err := bufio.NewReader(r.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	check(t, r.Body.Close())
	for body := ""; body != "42\n"; { // a cell that waits when the interrupt arrives is aborted
		b, err := io.ReadAll(post("print(kept + 1)").Body)
		check(t, err)
		body = string(b)
	}

	anonymous, err := http.Post(srv.URL+path, "text/plain", strings.NewReader("print(1)"))
	check(t, err)
	defer anonymous.Body.Close()
	if anonymous.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token the status is %d", anonymous.StatusCode)
	}
}
