package confine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/internal/confine"
	"github.com/sandgate/sandgate/protocol/fault"
)

const jobVariable = "SANDGATE_TEST_JOB"

// TestMain is also the child: the runner starts the test binary with the name of a job.
func TestMain(m *testing.M) {
	if os.Getenv(jobVariable) != "" {
		os.Exit(confine.Main(jobs(), os.Args[len(os.Args)-1]))
	}
	os.Exit(m.Run())
}

type paths struct{ Inside, Outside string }

// attempts tries what a confined process must not be able to do, and returns those that succeeded.
func attempts(_ context.Context, args json.RawMessage, _ io.Reader) (any, error) {
	var p paths
	if err := json.Unmarshal(args, &p); err != nil {
		return nil, err
	}
	done := []string{}
	try := func(what string, err error) {
		if err == nil {
			done = append(done, what)
		}
	}
	_, err := os.ReadFile(filepath.Join(p.Outside, "secret"))
	try("read a file outside", err)
	try("write outside", os.WriteFile(filepath.Join(p.Outside, "x"), nil, 0o600))
	try("mount", syscall.Mount("none", p.Inside, "tmpfs", 0, ""))
	try("enter a namespace", syscall.Unshare(syscall.CLONE_NEWUSER))
	_, err = net.Dial("udp", "192.0.2.1:53")
	try("open a socket", err)
	try("trace", syscall.PtraceAttach(os.Getppid()))
	try("create a device", syscall.Mknod(filepath.Join(p.Inside, "d"), syscall.S_IFCHR|0o600, 1<<8|3))
	try("set the host's name", syscall.Sethostname([]byte("x")))
	try("become another user", syscall.Setuid(1000))
	try("open 2,000 files", func() error {
		for range 2000 {
			f, err := os.Open(p.Inside)
			if err != nil {
				return err
			}
			defer f.Close()
		}
		return nil
	}())
	// Its work must be possible.
	file := filepath.Join(p.Inside, "mine")
	return done, errors.Join(os.WriteFile(file, []byte("x"), 0o600), os.Chown(file, 1000, 1000),
		os.Chmod(file, 0o640), exec.Command("true").Run())
}

func jobs() map[string]confine.Job {
	return map[string]confine.Job{
		"attempts": attempts,
		"echo": func(_ context.Context, args json.RawMessage, in io.Reader) (any, error) {
			data, err := io.ReadAll(in)
			return string(args) + string(data), err
		},
		"refuse": func(context.Context, json.RawMessage, io.Reader) (any, error) {
			return nil, fault.Invalid("inner", "files", "no")
		},
		"hang": func(_ context.Context, _ json.RawMessage, in io.Reader) (any, error) {
			if err := exec.Command("sleep", "1000").Start(); err != nil {
				return nil, err
			}
			_, _ = os.Stderr.WriteString("started\n")
			_, err := io.Copy(io.Discard, in)
			return nil, err
		},
		"die": func(context.Context, json.RawMessage, io.Reader) (any, error) { panic("oh") },
		"large": func(context.Context, json.RawMessage, io.Reader) (any, error) {
			return strings.Repeat("x", 8<<20), nil
		},
	}
}

// fakeGroup is a cgroup without limits, which only records the process.
type fakeGroup struct{ pid, removed int }

func (g *fakeGroup) Confine(pid int) error { g.pid = pid; return nil }
func (g *fakeGroup) OutOfMemory() bool     { return false }
func (g *fakeGroup) Remove() error         { g.removed++; return nil }

func runner(g confine.Group) confine.Runner {
	return confine.Runner{
		Argv: []string{"/proc/self/exe"}, Env: []string{jobVariable + "=1"},
		NewGroup: func() (confine.Group, error) { return g, nil },
	}
}

// TestHardening_ConfinedJob: a job can do its work in its own folder, and nothing else.
func TestHardening_ConfinedJob(t *testing.T) {
	t.Parallel()
	p := paths{Inside: t.TempDir(), Outside: t.TempDir()}
	if err := os.WriteFile(filepath.Join(p.Outside, "secret"), []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	g := &fakeGroup{}
	var done []string
	err := runner(g).Run(t.Context(), confine.Task{
		Job: "attempts", Args: p, Write: []string{p.Inside},
	}, &done)
	if err != nil {
		t.Fatal(err)
	}
	if len(done) > 0 {
		t.Errorf("a confined job could %q", done)
	}
	if g.pid == 0 || g.removed != 1 {
		t.Errorf("its cgroup got process %d and was removed %d times", g.pid, g.removed)
	}
}

// TestHardening_ConfinedMessages: arguments, input, results and errors reach the other side.
func TestHardening_ConfinedMessages(t *testing.T) {
	t.Parallel()
	r := runner(&fakeGroup{})
	input := bytes.Repeat([]byte("i"), 1<<20)
	var text string
	err := r.Run(t.Context(), confine.Task{Job: "echo", Args: 7, In: bytes.NewReader(input)}, &text)
	if err != nil || text != "7"+string(input) {
		t.Errorf("got %d bytes, %v", len(text), err)
	}
	err = r.Run(t.Context(), confine.Task{Job: "refuse"}, nil)
	if p := fault.PublicOf(err); p.Kind != fault.InvalidArgument || p.Field != "files" ||
		p.Message != "no" {
		t.Errorf("got %+v", p)
	}
	for _, job := range []string{"die", "none", "large"} {
		if err := r.Run(t.Context(), confine.Task{Job: job}, nil); !fault.Is(err, fault.Host) {
			t.Errorf("%s: %v", job, err)
		}
	}
	cut := fault.New(fault.Malformed, "upload", "it was cut short")
	err = r.Run(t.Context(), confine.Task{
		Job: "echo", In: io.MultiReader(bytes.NewReader(input), failing{cut}),
	}, nil)
	if !errors.Is(err, cut) {
		t.Errorf("the input failed: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// started is an input that waits; the caller leaves once the child runs.
type started struct {
	io.Reader
	once func()
}

func (s started) Read(p []byte) (int, error) { s.once(); return s.Reader.Read(p) }

// TestHardening_ConfinedEndsWithItsCaller: a job ends with all its processes when its caller leaves.
func TestHardening_ConfinedEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := &fakeGroup{}
	in, out := io.Pipe()
	defer out.Close()
	err := runner(g).Run(ctx, confine.Task{Job: "hang", In: started{in, cancel}}, nil)
	if !fault.Is(err, fault.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(g.pid)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its process %d is there: %v", g.pid, err)
	}
}

// TestHardening_UnconfinedJobRefuses: a child that nobody has confined does no work.
func TestHardening_UnconfinedJobRefuses(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", "echo")
	cmd.Env = []string{jobVariable + "=1"}
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "capabilities") &&
		!strings.Contains(string(said), "not confined") {
		t.Errorf("it ended with %v: %s", err, said)
	}
}
