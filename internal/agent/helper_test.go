package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// rig is a running agent and a client of it.
type rig struct {
	*client.Client
	t    testing.TB
	ctx  context.Context
	root string
	home string
	// the user's id; each rig has its own, because RLIMIT_NPROC counts all processes of a user
	uid  int
	cmd  *exec.Cmd
	in   io.WriteCloser // input of the agent
	out  io.Reader      // output of the agent
	sink *agenttest.Recorder
}

// newRig starts an agent, stops it when the test ends, and fails the test if a process is still
// running then.
func newRig(t testing.TB, env ...string) *rig {
	t.Helper()
	r := startAgent(t, env...)
	r.Client = client.New(r.out, r.in, r.sink)
	if err := r.WaitHello(r.ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// startAgent starts an agent without a client, and stops it when the test ends.
func startAgent(t testing.TB, env ...string) *rig {
	t.Helper()
	root, err := os.MkdirTemp("", "sandgate-rig")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	home := filepath.Join(root, "home")
	uid := 100_000 + os.Getpid()%10_000*1000 + int(shared.rigs.Add(1))%1000
	for _, err := range []error{
		os.Chmod(root, 0o755), os.Mkdir(home, 0o755), os.Chown(home, uid, 1000),
		writeManifests(root, shared.exe),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := agenttest.Start(shared.exe, root,
		append([]string{"SANDGATE_UID=" + strconv.Itoa(uid)}, env...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	r := &rig{
		t: t, ctx: ctx, root: root, home: home, uid: uid, cmd: p.Cmd, in: p.In, out: p.Out,
		sink: agenttest.NewRecorder(),
	}
	t.Cleanup(func() {
		defer cancel()
		p.In.Close()
		ended := make(chan error, 1)
		go func() { ended <- p.Cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil && !r.killed() {
				t.Errorf("the agent ended with %v", err)
			}
		case <-time.After(2 * time.Minute):
			p.Cmd.Process.Kill()
			t.Errorf("the agent did not end with its input")
		}
		if r.Client != nil {
			<-r.Done()
		}
		p.Out.Close()
	})
	return r
}

// rawRig is an agent whose client is the test.
type rawRig struct {
	t      testing.TB
	in     io.Writer
	frames *frame.Reader
}

func newRawRig(t testing.TB) *rawRig {
	t.Helper()
	r := startAgent(t)
	return &rawRig{t: t, in: r.in, frames: frame.NewReader(r.out, 0)}
}

func (r *rawRig) send(q wire.Request) {
	r.t.Helper()
	body, err := json.Marshal(q)
	if err == nil {
		_, err = r.in.Write(frame.Append(nil, frame.Frame{Type: frame.Control, Body: body}))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// answer returns the response to a request, which must not be an error.
func (r *rawRig) answer(id uint64) wire.Response {
	r.t.Helper()
	for {
		f, err := r.frames.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		var a wire.Response
		if f.Type == frame.Control && json.Unmarshal(f.Body, &a) == nil && a.ID == id {
			if len(a.Error) > 0 {
				r.t.Fatalf("the answer is an error: %s", a.Error)
			}
			return a
		}
	}
}

func (r *rig) killed() bool {
	return r.cmd.ProcessState != nil &&
		r.cmd.ProcessState.ExitCode() == -1
}

// kernel starts a test kernel.
func (r *rig) kernel(ch uint32, language string) message.Info {
	r.t.Helper()
	info, err := r.Kernels.Start(r.ctx, ch, wire.StartKernel{Language: language})
	if err != nil {
		r.t.Fatal(err)
	}
	return info
}

// run executes code and returns the cell's output.
func (r *rig) run(ch, cell uint32, code string) (string, message.Reply) {
	r.t.Helper()
	reply, err := r.Kernels.Request(r.ctx, ch, kernel.Request{
		Op: "execute", ID: 77, Cell: cell,
		Code: code,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.sink.Text(ch, cell), reply
}

// program runs a shell command to its end.
func (r *rig) program(ch uint32, script string) (string, wire.Exit) {
	r.t.Helper()
	if _, err := r.StartProcess(r.ctx, ch,
		wire.StartProcess{Argv: []string{"/bin/sh", "-c", script}}); err != nil {
		r.t.Fatal(err)
	}
	e := r.sink.WaitExit(r.t, ch)
	return r.sink.Text(ch, 0), e
}

// count returns the number of processes of the rig's user that have the mark in their command line,
// whatever their parent is. Another run of the test has another user.
func (r *rig) count(mark string) int { return len(r.marked(mark)) }

// marked returns the processes that count counts.
func (r *rig) marked(mark string) []process.Info {
	return slices.DeleteFunc(process.All(), func(p process.Info) bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		return p.UID != r.uid || p.Zombie || !bytes.Contains(b, []byte(mark))
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
