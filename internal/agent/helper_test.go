package agent

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/stream"
)

// rig is an agent that runs, and a client of it.
type rig struct {
	*Client
	t    testing.TB
	ctx  context.Context
	root string
	home string
	uid  int // the user's; each rig has its own, since RLIMIT_NPROC counts all processes of a user
	cmd  *exec.Cmd
	in   io.WriteCloser
	sink *recorder
}

// newRig starts an agent and stops it when the test ends, and then fails the
// test if a process has outlived it.
func newRig(t testing.TB, env ...string) *rig {
	t.Helper()
	root, err := os.MkdirTemp("", "sandgate-rig")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	home := filepath.Join(root, "home")
	uid := 100_000 + os.Getpid()%10_000*1000 + int(shared.rigs.Add(1))%1000
	for _, err := range []error{
		os.Chmod(root, 0o755), os.Mkdir(home, 0o755), os.Chown(home, uid, 1000), writeManifests(root, shared.exe),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(shared.exe)
	cmd.Env = append([]string{"SANDGATE_TEST=agent", noNap, "SANDGATE_ROOT=" + root, "SANDGATE_UID=" + strconv.Itoa(uid), "PATH=" + os.Getenv("PATH")}, env...)
	cmd.Stderr = os.Stderr
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	r := &rig{t: t, ctx: ctx, root: root, home: home, uid: uid, cmd: cmd, in: ourOut, sink: newRecorder()}
	r.Client = NewClient(ourIn, ourOut, r.sink)
	t.Cleanup(func() {
		defer cancel()
		ourOut.Close()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil && !r.killed() {
				t.Errorf("the agent ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
			t.Errorf("the agent did not end with its input")
		}
		<-r.Done()
		ourIn.Close()
	})
	if err := r.WaitHello(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) killed() bool { return r.cmd.ProcessState != nil && r.cmd.ProcessState.ExitCode() == -1 }

// kernel starts a test kernel.
func (r *rig) kernel(ch uint32, language string) kernel.Info {
	r.t.Helper()
	info, err := r.StartKernel(r.ctx, ch, StartKernel{Language: language})
	if err != nil {
		r.t.Fatal(err)
	}
	return info
}

// run executes code and returns what the cell printed.
func (r *rig) run(ch, cell uint32, code string) (string, kernel.Reply) {
	r.t.Helper()
	reply, err := r.Request(r.ctx, ch, kernel.Request{Op: "execute", ID: 77, Cell: cell, Code: code})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.sink.text(ch, cell), reply
}

// program runs a shell command to its end.
func (r *rig) program(ch uint32, script string) (string, Exit) {
	r.t.Helper()
	if _, err := r.StartProcess(r.ctx, ch, StartProcess{Argv: []string{"/bin/sh", "-c", script}}); err != nil {
		r.t.Fatal(err)
	}
	e := r.sink.waitExit(r.t, ch)
	return r.sink.text(ch, 0), e
}

// count returns how many processes the rig's user has that carry the mark in
// their command line, whoever their parent is. Another run of the test has
// another user.
func (r *rig) count(mark string) int {
	n := 0
	for _, p := range processes() {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/cmdline")
		if p.uid == r.uid && !p.zombie && bytes.Contains(b, []byte(mark)) {
			n++
		}
	}
	return n
}

// eventually waits for something that has no event.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

func wantKind(t testing.TB, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v (%s), want %s", err, fault.KindOf(err), kind)
	}
	e, _ := err.(*fault.Error)
	return e
}

// recorder is a sink that keeps everything.
type recorder struct {
	mu      sync.Mutex
	changed chan struct{} // closed and renewed at each change
	frames  map[uint32][]stream.Frame
	bytes   map[uint32]int
	exits   map[uint32]Exit
	after   int // frames that came after their channel's exit
	keep    bool
}

func newRecorder() *recorder {
	return &recorder{changed: make(chan struct{}), frames: map[uint32][]stream.Frame{}, bytes: map[uint32]int{}, exits: map[uint32]Exit{}, keep: true}
}

func (r *recorder) news() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Output(ch uint32, f stream.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ended := r.exits[ch]; ended {
		r.after++
	}
	r.bytes[ch] += len(f.Body)
	if r.keep {
		f.Body = bytes.Clone(f.Body)
		r.frames[ch] = append(r.frames[ch], f)
	}
	r.news()
}

func (r *recorder) Exit(ch uint32, e Exit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exits[ch] = e
	r.news()
}

// until waits for a condition that is looked at under the lock.
func (r *recorder) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.After(40 * time.Second)
	for {
		r.mu.Lock()
		done, changed := ok(), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

func (r *recorder) waitExit(t testing.TB, ch uint32) Exit {
	t.Helper()
	r.until(t, "the exit of a channel", func() bool { _, ok := r.exits[ch]; return ok })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exits[ch]
}

// text is the plain output of a cell.
func (r *recorder) text(ch, cell uint32) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, f := range r.frames[ch] {
		if f.Cell == cell && (f.Type == stream.Stdout || f.Type == stream.Stderr) {
			b.Write(f.Body)
		}
	}
	return b.String()
}

func (r *recorder) size(ch uint32) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes[ch]
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
