// Package e2e starts Sandgate as a user does, for the tests through its public
// interface and for the benchmarks.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
)

// Server is a running `sandgate serve` with its own folders.
type Server struct {
	// URL is its address, as http://127.0.0.1:port.
	URL string
	// Token is the access token that the server created on its first start.
	Token string
	// Dir holds its configuration, data, run folder and log.
	Dir string
	// Config is the path of its configuration.
	Config string

	// program is the path of another build than the one in bin; empty for that one.
	program string
	cmd     *exec.Cmd
	done    chan error
}

// Bin returns the path of a program that `make build` has built.
func Bin(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "sandgate")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("e2e: not inside the repository")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("e2e: %s is not built: run make build", name)
	}
	return path, nil
}

// Start starts a server and waits until its pool has a warm sandbox. Settings
// are lines of YAML that are added to its configuration.
func Start(ctx context.Context, settings string) (*Server, error) {
	return start(ctx, settings, "")
}

// start is Start for a server with a given access token, unless token is empty.
func start(ctx context.Context, settings, token string) (*Server, error) {
	return startRelease(ctx, "", settings, token)
}

// startRelease is start for another build of the program, unless program is empty.
func startRelease(ctx context.Context, program, settings, token string) (*Server, error) {
	dir, err := os.MkdirTemp("", "sandgate-e2e-")
	if err != nil {
		return nil, err
	}
	// The gateway's user must be able to reach the socket in this folder.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	address, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL: "http://" + address, Dir: dir, Config: filepath.Join(dir, "config.yaml"),
		program: program,
	}
	config := fmt.Sprintf("listen: %s\ndata_dir: %s/data\nrun_dir: %s/run\n%s\n", address, dir, dir,
		settings)
	if err := os.WriteFile(s.Config, []byte(config), 0o644); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o711); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.snapshots(), 0o700); err != nil {
		return nil, err
	}
	if err := testenv.TakeSnapshots(s.snapshots()); err != nil {
		return nil, err
	}
	if token != "" {
		if err := os.WriteFile(filepath.Join(dir, "data", "token"), []byte(token),
			0o600); err != nil {
			return nil, err
		}
	}
	if err := s.Boot(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.Stop()
		return nil, fmt.Errorf("%w\n%s", err, log)
	}
	if err := testenv.ShareSnapshots(s.snapshots()); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// snapshots is the folder of the server's warm snapshots.
func (s *Server) snapshots() string { return filepath.Join(s.Dir, "data", "node", "snapshots") }

// Boot starts the program in the server's folders. It also starts a server again
// that was stopped by Halt.
func (s *Server) Boot(ctx context.Context) error {
	bin, err := Bin("sandgate")
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// The messages for the person who started the server are not a log. They have the
	// address with the token.
	shown, err := os.OpenFile(filepath.Join(s.Dir, "shown"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	if err != nil {
		return err
	}
	defer shown.Close()
	if s.program != "" {
		bin = s.program
	}
	s.cmd = exec.Command(bin, "serve", "--config", s.Config)
	s.cmd.Stdout, s.cmd.Stderr = shown, log
	s.cmd.Env = append(os.Environ(), "HOME="+s.Dir, "XDG_CONFIG_HOME="+s.Dir+"/xdg", "SUDO_UID=",
		"SUDO_USER=")
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.done = make(chan error, 1)
	go func() { s.done <- s.cmd.Wait() }()
	for {
		if token, err := os.ReadFile(filepath.Join(s.Dir, "data", "token")); err == nil {
			s.Token = strings.TrimSpace(string(token))
			if s.warm(ctx) {
				return nil
			}
		}
		select {
		case err := <-s.done:
			s.done <- err
			return fmt.Errorf("e2e: serve ended: %v", err)
		case <-ctx.Done():
			return fmt.Errorf("e2e: the server was not ready in time: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// warm reports whether the pool has a sandbox ready.
func (s *Server) warm(ctx context.Context) bool {
	var status struct {
		Node protocol.NodeStatus `json:"node"`
	}
	code, err := s.Get(ctx, "/v1/status", &status)
	pool := status.Node.Pool
	return err == nil && code == http.StatusOK && pool.Ready > 0 && pool.Ready >= pool.Size
}

// Warm waits until the pool is full.
func (s *Server) Warm(ctx context.Context) error {
	for !s.warm(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("e2e: the pool was not full in time: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// PID returns the process id of the supervisor.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Child returns the process id of the supervisor's child that runs the given command:
// node or gateway.
func (s *Server) Child(command string) (int, error) {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, p := range procs {
		stat, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		var state string
		var ppid, pid int
		fmt.Sscan(rest, &state, &ppid)
		fmt.Sscan(p.Name(), &pid)
		if ppid != s.PID() || state == "Z" {
			continue
		}
		argv, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		args := strings.Split(string(argv), "\x00")
		if len(args) > 1 && args[1] == command {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("e2e: there is no %s process", command)
}

// Halt stops the program with the signal, waits for its end, and keeps the
// folders.
func (s *Server) Halt(sig syscall.Signal) error {
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	s.cmd.Process.Signal(sig)
	select {
	case err := <-s.done:
		s.done <- err
		return err
	case <-time.After(2 * time.Minute): // a busy machine needs long to write all sessions
		s.cmd.Process.Kill()
		return errors.New("e2e: serve did not end within 2 min of the signal")
	}
}

// Complaints returns the last hundred lines of the server's log that are warnings or
// errors.
func (s *Server) Complaints() string {
	var bad []string
	for line := range strings.Lines(s.Log()) {
		if !strings.Contains(line, " level=INFO ") && !strings.Contains(line, " level=DEBUG ") {
			bad = append(bad, line)
		}
	}
	return strings.Join(bad[max(0, len(bad)-100):], "")
}

// Log returns the server's log.
func (s *Server) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	return string(b)
}

// Stop ends the server and removes its folders.
func (s *Server) Stop() error {
	err := s.Halt(syscall.SIGTERM)
	return errors.Join(err, testenv.ShareSnapshots(s.snapshots()), os.RemoveAll(s.Dir))
}
