// Package blobtest runs a real S3 server for tests: versitygw, over a folder.
package blobtest

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Bucket is the name of a Server's bucket.
const Bucket = "sandgate"

// Server is an S3 server on this machine.
type Server struct {
	// Endpoint is its address.
	Endpoint string
	// Credentials is a file with valid credentials, Wrong a file with invalid ones.
	Credentials, Wrong string
	// Files is the folder with the bucket's objects, under their names.
	Files string

	address string
	dir     string
	cmd     *exec.Cmd
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{
		Credentials: filepath.Join(dir, "credentials"), Wrong: filepath.Join(dir, "wrong"),
		Files: filepath.Join(dir, "objects", Bucket), dir: dir,
	}
	must(t, os.MkdirAll(s.Files, 0o755))
	must(t, os.Mkdir(filepath.Join(dir, "about"), 0o755))
	for path, secret := range map[string]string{
		s.Credentials: "no-secret-of-anybody",
		s.Wrong:       "another",
	} {
		must(t, os.WriteFile(path,
			[]byte("[default]\naws_access_key_id = test\naws_secret_access_key = "+secret+"\n"),
			0o600))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.address = l.Addr().String()
	must(t, l.Close())
	s.Endpoint = "http://" + s.address
	t.Cleanup(s.Kill)
	s.Run(t)
	return s
}

// Run starts a killed server again and waits until it answers.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(binary(t), "--quiet", "--port", s.address, "posix", "--sidecar",
		filepath.Join(s.dir, "about"), filepath.Join(s.dir, "objects"))
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID=test",
		"ROOT_SECRET_ACCESS_KEY=no-secret-of-anybody")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, s.cmd.Start())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint, nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			must(t, answer.Body.Close())
			return
		}
		must(t, ctx.Err())
		time.Sleep(20 * time.Millisecond)
	}
}

// Kill ends the server at once.
func (s *Server) Kill() {
	if s.cmd != nil {
		s.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Signal sends a signal to the server.
func (s *Server) Signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// Stop pauses the server, and returns when all its threads stand still. The signal alone reaches
// each thread when it runs next.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.Signal(syscall.SIGSTOP)
	must(t, unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil))
}

// binary is the path of the server's program.
func binary(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	must(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "sandgate")); err == nil {
			path := filepath.Join(dir, "bin", "versitygw")
			if _, err := os.Stat(path); err != nil {
				t.Fatal("the S3 server of the tests is not built: run make bin/versitygw")
			}
			return path
		}
	}
	t.Fatal("not inside the repository")
	return ""
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
