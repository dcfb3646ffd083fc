package gvisor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
)

// The tests run real sandboxes, as root. TestMain builds their image: a static Go program,
// testdata/agent, in an EROFS file of 2 MB.
var (
	testRunsc string
	testImage string
	testDir   string // shared by tests, with a short path, on the disk
)

func TestMain(m *testing.M) {
	// A child of TestSweepAfterKill: boots sandboxes and waits to be killed.
	if dir := os.Getenv("SANDGATE_TEST_OWNER"); dir != "" {
		ownerMain(dir)
	}
	code, err := testMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox tests:", err)
		code = 1
	}
	os.Exit(code)
}

func testMain(m *testing.M) (int, error) {
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("they need root: run `make test`")
	}
	testRunsc = os.Getenv("SANDGATE_RUNSC")
	if testRunsc == "" {
		testRunsc = testenv.Path("bin", "runsc")
	}
	if _, err := os.Stat(testRunsc); err != nil {
		return 0, fmt.Errorf(
			"%w: run `make build` (or deploy/runsc/build --out bin/runsc), or set SANDGATE_RUNSC",
			err)
	}
	dir, err := os.MkdirTemp("/tmp", "sgt-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	testDir = dir
	// Sandboxes run as nobody and must be able to execute a runsc that a test puts here.
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	// On a machine without a Go toolchain, the variable names the image.
	if testImage = os.Getenv("SANDGATE_TEST_IMAGE"); testImage == "" {
		if testImage, err = buildImage(dir); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

func buildImage(dir string) (string, error) {
	root, image := filepath.Join(dir, "root"), filepath.Join(dir, "image.erofs")
	for _, d := range []string{"proc", "dev", "sys", "tmp", "data", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return "", err
		}
	}
	for _, argv := range [][]string{
		{"go", "build", "-ldflags=-s -w", "-o", filepath.Join(root, "agent"), "./testdata/agent"},
		{"mkfs.erofs", "-Enoinline_data", image, root},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", argv, err, out)
		}
	}
	return image, nil
}

// testSpec is small, so that 20 sandboxes fit on any machine.
func testSpec() Spec {
	return Spec{
		Image: testImage,
		Args:  []string{"/agent"},
		Env:   []string{"PATH=/", "GOMAXPROCS=2"},
		Limits: Limits{
			MemoryBytes:  128 * miB,
			OverlayBytes: 16 * miB,
			TmpBytes:     8 * miB,
			ShmBytes:     4 * miB,
			OpenFiles:    256,
		},
	}
}

func testConfig(tb testing.TB) Config {
	tb.Helper()
	dir, err := os.MkdirTemp(testDir, "s")
	if err != nil {
		tb.Fatal(err)
	}
	return Config{
		Runsc:        testRunsc,
		StateDir:     dir,
		CgroupParent: "/sandgate-test",
		Log: slog.New(slog.NewTextHandler(tb.Output(),
			&slog.HandlerOptions{Level: slog.LevelInfo})),
	}
}

func newRuntime(tb testing.TB) *Runtime {
	tb.Helper()
	r, err := NewRuntime(testConfig(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return r
}

// guest is a connection to testdata/agent in a sandbox.
type guest struct {
	*Sandbox
	tb  testing.TB
	out *bufio.Reader
}

func talk(tb testing.TB, s *Sandbox) guest {
	return guest{s, tb, bufio.NewReader(s.Stdout())}
}

// boot boots a sandbox and waits until its agent is ready.
func boot(tb testing.TB, r *Runtime, spec Spec) guest {
	tb.Helper()
	s, err := r.Boot(tb.Context(), spec)
	if err != nil {
		tb.Fatal(err)
	}
	g := talk(tb, s)
	if got := g.read(); got != "ready" {
		tb.Fatalf("the agent said %q", got)
	}
	return g
}

func (g guest) write(line string) {
	g.tb.Helper()
	if _, err := io.WriteString(g.Stdin(), line+"\n"); err != nil {
		g.tb.Fatalf("%s: %v (%v)", line, err, g.Exit())
	}
}

func (g guest) read() string {
	g.tb.Helper()
	if err := g.Stdout().SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		g.tb.Fatal(err)
	}
	line, err := g.out.ReadString('\n')
	if err != nil {
		g.tb.Fatalf("reading the agent's answer: %v (%v) %s", err, g.Exit(), g.Stderr())
	}
	return strings.TrimSuffix(line, "\n")
}

func (g guest) ask(format string, args ...any) string {
	g.tb.Helper()
	g.write(fmt.Sprintf(format, args...))
	return g.read()
}

// awaitEnd waits for the sandbox to end, and returns its Exit.
func (g guest) awaitEnd() Exit {
	g.tb.Helper()
	select {
	case <-g.Done():
		return g.Exit()
	case <-time.After(2 * time.Minute):
		buf := make([]byte, 1<<20)
		g.tb.Fatalf("the sandbox does not end; %+v, processes %v\n%s\nthe sentry:\n%s",
			g.group.read(),
			processesIn(dirs(g.group.path, g.group.v2)), buf[:runtime.Stack(buf, true)], g.sentry())
		return Exit{}
	}
}

// sentry returns the goroutine stacks of a sandbox's sentry.
func (g guest) sentry() string {
	said := make(chan string, 1)
	go func() {
		stacks, err := g.container.Sandbox.Stacks()
		if err != nil {
			stacks = err.Error()
		}
		said <- stacks
	}()
	select {
	case stacks := <-said:
		return stacks
	case <-time.After(2 * time.Minute):
		return "does not answer"
	}
}

func destroy(tb testing.TB, s *Sandbox) {
	tb.Helper()
	if err := s.Destroy(context.Background()); err != nil {
		tb.Errorf("Destroy: %v", err)
	}
}
