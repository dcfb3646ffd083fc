package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/clienttest"
	"github.com/sandgate/sandgate/internal/console"
)

// TestMain lets the test binary run as sandgate, so that signals, terminals and restarts are tested
// on real processes.
func TestMain(m *testing.M) {
	switch os.Getenv("SANDGATE_TEST_AS") {
	case "sandgate":
		os.Exit(Main(context.Background(), &console.Invocation{
			In: os.Stdin, Out: os.Stdout,
			Err: os.Stderr, Env: os.Environ(), Version: "test",
		}, os.Args[1:]))
	default:
		os.Exit(m.Run())
	}
}

// cli is one call of the program in this process.
type cli struct {
	env  []string
	home string
}

func newCLI(t *testing.T, s *clienttest.Server) *cli {
	t.Helper()
	home := t.TempDir()
	c := &cli{home: home, env: []string{"HOME=" + home}}
	if s != nil {
		c.env = append(c.env, "SANDGATE_URL="+s.URL, "SANDGATE_TOKEN="+s.Token)
	}
	return c
}

// run returns the output of the program and its exit code.
func (c *cli) run(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	go func() {
		_, _ = io.WriteString(feed, stdin)
		_ = feed.Close()
	}()
	var out, errs lockedBuffer
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	code = Main(ctx, &console.Invocation{
		In: in, Out: &out, Err: &errs, Env: c.env,
		Version: "test",
	}, args)
	return out.String(), errs.String(), code
}

// process returns the program as a separate process.
func (c *cli) process(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append([]string{"SANDGATE_TEST_AS=sandgate", "PATH=" + os.Getenv("PATH")}, c.env...)
	return cmd
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newServer(t *testing.T, script clienttest.Script) *clienttest.Server {
	t.Helper()
	s := clienttest.New(script)
	t.Cleanup(s.Close)
	return s
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
