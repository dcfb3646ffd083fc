package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// channel is one of the five sockets of a kernel.
type channel int

const (
	shell channel = iota
	iopub
	stdin
	control
	heartbeat
	channels
)

// kinds are the types of the client's sockets.
func (c channel) kind() string { return [...]string{"DEALER", "SUB", "DEALER", "DEALER", "REQ"}[c] }

// port is the name of the channel's port in a connection file.
func (c channel) port() string {
	return [...]string{"shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"}[c]
}

const (
	// startPause is the time between two attempts to connect to a kernel that starts.
	startPause = 10 * time.Millisecond
	// ipcPatience is how long a kernel may take to bind Unix sockets. After that it is started
	// again with TCP.
	ipcPatience = 20 * time.Second
)

// process is a kernel's process and the addresses of its sockets.
type process struct {
	cmd    *exec.Cmd
	key    string
	dir    string // has the connection file and the Unix sockets
	ports  [channels]int
	ipc    bool
	words  *words        // nil unless the kernel is in Python
	exited chan struct{} // closed when it has ended
	err    error         // why it has ended; read it after exited
}

// startProcess starts a kernel that binds Unix sockets, or else ports of the loopback address.
func startProcess(spec kernelspec, ipc bool) (*process, error) {
	var key [16]byte
	rand.Read(key[:]) // never fails
	p := &process{key: hex.EncodeToString(key[:]), ipc: ipc, exited: make(chan struct{})}
	var err error
	if p.dir, err = os.MkdirTemp("", "jupyter-"); err != nil {
		return nil, err
	}
	if err = p.start(spec); err != nil {
		_ = os.RemoveAll(p.dir)
		return nil, err
	}
	return p, nil
}

func (p *process) start(spec kernelspec) error {
	info := map[string]any{
		"key": p.key, "signature_scheme": "hmac-sha256", "kernel_name": filepath.Base(spec.dir),
	}
	if p.ipc {
		info["transport"], info["ip"] = "ipc", filepath.Join(p.dir, "k")
		for c := range channels {
			p.ports[c] = int(c) + 1
		}
	} else {
		info["transport"], info["ip"] = "tcp", "127.0.0.1"
		if err := p.pickPorts(); err != nil {
			return err
		}
	}
	for c := range channels {
		info[c.port()] = p.ports[c]
	}
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	file := filepath.Join(p.dir, "connection.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	argv, env := spec.command(file)
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, os.Stdout, os.Stderr
	if strings.Contains(filepath.Base(argv[0]), "python") {
		p.words = &words{}
		p.cmd.Stdout, p.cmd.Stderr = nil, p.words
		p.cmd.WaitDelay = lastWords // child processes may keep the pipe
	}
	// The agent's SIGINT is for the driver's group. The driver interrupts the kernel itself, when
	// the kernel has begun the cell.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("the kernel cannot be started: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return nil
}

// pickPorts picks free ports. The kernel binds them after this function has released them.
func (p *process) pickPorts() error {
	for c := range channels {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		p.ports[c] = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// dial connects to a channel once. Kernels form the path of a Unix socket with a hyphen, like
// Jupyter's own, or as an address with a colon, like IRkernel.
func (p *process) dial(c channel, identity string) (*socket, error) {
	port := strconv.Itoa(p.ports[c])
	if !p.ipc {
		return dial("tcp4", net.JoinHostPort("127.0.0.1", port), c.kind(), identity)
	}
	s, err := dial("unix", filepath.Join(p.dir, "k-"+port), c.kind(), identity)
	if errors.Is(err, os.ErrNotExist) {
		return dial("unix", filepath.Join(p.dir, "k:"+port), c.kind(), identity)
	}
	return s, err
}

// connect connects to a channel of a kernel that starts.
func (p *process) connect(c channel, identity string, until time.Time) (*socket, error) {
	for {
		s, err := p.dial(c, identity)
		if err == nil {
			return s, nil
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("the kernel does not answer on its %s: %w", c.port(), err)
		}
		select {
		case <-p.exited:
			return nil, p.death()
		case <-time.After(startPause):
		}
	}
}

// death describes the end of the process.
func (p *process) death() error {
	if p.err == nil {
		return errors.New("the kernel has ended")
	}
	return fmt.Errorf("the kernel has ended: %w", p.err)
}

// signal sends a signal to the kernel and its child processes.
func (p *process) signal(sig syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, sig) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
	_ = os.RemoveAll(p.dir)
}
