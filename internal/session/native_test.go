package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent"
	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// agentMain runs cmd/agent with the folders of the test.
func agentMain() int {
	root := os.Getenv("SANDGATE_ROOT")
	cfg := agent.Config{
		Langs: filepath.Join(root, "langs"), Home: filepath.Join(root, "home"),
		MachineID:    filepath.Join(root, "machine-id"),
		ReadyTimeout: 2 * time.Minute, KillGrace: 300 * time.Millisecond,
		SetHostname: func(string) error { return nil },
	}
	if err := process.Prepare(process.Limits{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := agent.NewServer(cfg).Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// driverMain is a language whose programs are one of: print TEXT, fail, hang,
// deaf, die, ask, env NAME, flood BYTES.
func driverMain() {
	in := frame.NewReader(os.NewFile(3, "requests"), 0)
	out := frame.NewWriter(os.NewFile(4, "replies"))
	control := func(r message.Reply) {
		body, _ := json.Marshal(r)
		_ = out.Write(frame.Frame{Type: frame.Control, Body: body})
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT)
	env := map[string]string{}
	control(message.Reply{
		Op: "ready", Status: "ok",
		Info: &message.Info{Language: "test", Version: "1", PID: os.Getpid()},
	})
	requests, input := make(chan kernel.Request, 16), make(chan kernel.Request, 16)
	go func() {
		for {
			f, err := in.Next()
			if err != nil {
				os.Exit(0)
			}
			var r kernel.Request
			if json.Unmarshal(f.Body, &r) != nil {
				os.Exit(4)
			}
			if r.Op == "input" {
				input <- r
			} else {
				requests <- r
			}
		}
	}()
	count := 0
	for r := range requests {
		reply := message.Reply{Op: "reply", ID: r.ID, Status: "ok"}
		word, rest, _ := strings.Cut(r.Code, " ")
		print := func(s string) {
			_ = out.Write(frame.Frame{Type: frame.Stdout, Cell: r.Cell, Body: []byte(s)})
		}
		switch r.Op {
		case "reseed":
			for k, v := range r.Env {
				env[k] = v
			}
		case "comm":
			print("comm " + string(r.Comm))
			continue
		case "complete":
			reply.Matches = []message.Match{{Text: "print"}}
		case "variables":
			reply.Variables = []message.Variable{{
				Name: "x", Type: "int",
				Value: strconv.Itoa(count),
			}}
		case "execute":
			if !r.Silent {
				count++
				reply.Count = count
			}
			for len(stop) > 0 {
				<-stop
			}
			switch word {
			case "print":
				print(rest)
			case "fail":
				reply.Status, reply.EName, reply.EValue = "error", "Failure", "as asked"
			case "hang":
				print("hanging")
				<-stop
				reply.Status, reply.EName = "error", "KeyboardInterrupt"
			case "deaf":
				print("deaf")
				select {}
			case "die":
				os.Exit(3)
			case "ask":
				_ = out.Write(frame.Frame{
					Type: frame.Message, Cell: r.Cell,
					Body: []byte(
						`{"msg_type":"input_request","content":{"prompt":"name? ","password":false}}`),
				})
				answer := <-input
				print("hello " + answer.Value + strconv.FormatBool(answer.EOF))
			case "env":
				print(env[rest] + os.Getenv(rest))
			case "flood":
				n, _ := strconv.Atoi(rest)
				for part := bytes.Repeat([]byte("0123456789abcde\n"), 1024); n > 0; n -= len(part) {
					print(string(part[:min(n, len(part))]))
				}
			}
		}
		control(reply)
	}
}

// native is a backend whose machines are agents without a sandbox.
type native struct {
	t          testing.TB
	less       bool   // it has no capabilities
	canRestore bool   // Checkpoint and Snapshot work, and Restore fails
	folders    bool   // Snapshot makes an empty folder
	langs      string // the folder of its languages; "" means languages()
	written    func() // called by Checkpoint; may be nil
	mu         sync.Mutex
	booted     int
	live       int
}

type nativeMachine struct {
	sandbox.Unsupported
	host    *native
	cmd     *exec.Cmd
	root    string
	in, out *os.File
	done    chan struct{}
	mu      sync.Mutex
	reason  sandbox.Reason
	gone    bool
}

func (h *native) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Checkpoint: !h.less, Fork: !h.less}
}

func (h *native) Key(sandbox.Spec) (string, error) { return "native", nil }

func (h *native) Memory() int64 { return 0 }

func (h *native) Edition(string) (string, error) { return "", nil }

func (h *native) Restorable(context.Context, string) error { return nil }

func (h *native) Restore(context.Context, string, sandbox.Spec,
	sandbox.RestoreOptions,
) (sandbox.Machine, error) {
	return nil, errors.New("the snapshot does not fit this CPU")
}

func (m *nativeMachine) Checkpoint(ctx context.Context, dir string) error {
	if !m.host.canRestore {
		return errors.New("this backend has no snapshots")
	}
	if m.host.written != nil {
		m.host.written()
	}
	return errors.Join(os.MkdirAll(dir, 0o700), m.Destroy(ctx))
}

func (m *nativeMachine) Snapshot(_ context.Context, dir string, o sandbox.SnapshotOptions) error {
	defer o.Resumed()
	if !m.host.canRestore {
		return errors.New("this backend has no snapshots")
	}
	if m.host.folders {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return o.Paused()
}

func (h *native) Boot(context.Context, sandbox.Spec) (sandbox.Machine, error) {
	root, err := os.MkdirTemp("", "sandgate-native")
	if err != nil {
		return nil, err
	}
	home := filepath.Join(root, "home")
	if err := errors.Join(os.Chmod(root, 0o755), os.Mkdir(home, 0o755),
		os.Chown(home, 1000, 1000)); err != nil {
		return nil, err
	}
	all := languages()
	if h.langs != "" {
		all = nil
		if err := h.install(filepath.Join(root, "langs")); err != nil {
			return nil, err
		}
	}
	for _, l := range all {
		dir := filepath.Join(root, "langs", l.Name)
		body, err := json.Marshal(l)
		if err := errors.Join(err, os.MkdirAll(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "manifest.json"), body, 0o644)); err != nil {
			return nil, err
		}
	}
	m := &nativeMachine{host: h, root: root, done: make(chan struct{}), reason: "crashed"}
	p, err := agenttest.Start(built.exe, root)
	if err != nil {
		return nil, err
	}
	m.cmd, m.in, m.out = p.Cmd, p.In, p.Out
	h.mu.Lock()
	h.booted++
	h.live++
	h.mu.Unlock()
	go func() {
		_ = m.cmd.Wait()
		close(m.done)
	}()
	return m, nil
}

func (m *nativeMachine) Wire() (io.Reader, io.Writer) { return m.out, m.in }
func (m *nativeMachine) Done() <-chan struct{}        { return m.done }

func (m *nativeMachine) Exit() sandbox.Exit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return sandbox.Exit{Reason: m.reason, Detail: "native"}
}

func (m *nativeMachine) SetPaused(_ context.Context, paused bool) error {
	if paused {
		return m.cmd.Process.Signal(syscall.SIGSTOP)
	}
	return m.cmd.Process.Signal(syscall.SIGCONT)
}

// kill ends the machine with a reason, as an event outside the sandbox would.
func (m *nativeMachine) kill(reason sandbox.Reason) {
	m.mu.Lock()
	m.reason = reason
	m.mu.Unlock()
	_ = m.cmd.Process.Kill()
}

func (m *nativeMachine) Destroy(context.Context) error {
	m.mu.Lock()
	first := !m.gone
	m.gone = true
	m.mu.Unlock()
	if !first {
		return nil
	}
	// When its input ends, the agent ends all processes that it started. A killed agent would leave
	// them running, because no sandbox contains them here.
	_ = m.cmd.Process.Signal(syscall.SIGCONT)
	_ = m.in.Close()
	<-m.done
	_ = m.out.Close()
	m.host.mu.Lock()
	m.host.live--
	m.host.mu.Unlock()
	return os.RemoveAll(m.root)
}

func languages() []kernel.Manifest {
	m := kernel.Manifest{
		Name: "test", Display: "Test", Aliases: []string{"t"}, Extensions: []string{".t"},
		Argv: []string{built.exe},
		Env:  agenttest.DriverEnv(), Program: []string{"sh", "{file}"}, Interrupt: "signal",
		Warm: "print warm",
	}
	o := m
	o.Name, o.Display, o.Aliases, o.Extensions = "other", "Other", nil, []string{".o"}
	return []kernel.Manifest{m, o}
}
