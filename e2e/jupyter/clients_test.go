package jupyter

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/internal/testenv"
)

// python is Debian's, which finds Debian's packages.
const python = "/usr/bin/python3"

// pathToken returns the address of a Jupyter server with a token in its path, for clients that send
// no credentials.
func pathToken(t *testing.T) string {
	t.Helper()
	s := server(t)
	var made struct{ URL string }
	r := request(t, "POST", s.URL+"/jupyter/token", header("Authorization", "token "+s.Token), &made)
	if r.StatusCode != http.StatusCreated || made.URL == "" {
		t.Fatalf("a token for the path: status %d", r.StatusCode)
	}
	return made.URL
}

// unittests runs a class, or a file, of Python's tests with the gateway client of Jupyter Server.
func unittests(t *testing.T, name string) {
	t.Helper()
	cmd := exec.CommandContext(deadline(t), python, "-B", "-m", "unittest", "-v", name)
	cmd.Dir = "clients"
	cmd.Env = append(os.Environ(), "JUPYTER_GATEWAY_URL="+pathToken(t),
		"JUPYTER_GATEWAY_CONNECT_TIMEOUT=120", "JUPYTER_GATEWAY_REQUEST_TIMEOUT=120",
		"KERNEL_LAUNCH_TIMEOUT=120", "JUPYTER_PLATFORM_DIRS=1", "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestKernelTests runs jupyter_kernel_test for each language.
func TestKernelTests(t *testing.T) {
	t.Parallel()
	for _, class := range []string{"Python", "JavaScript", "Go", "Java", "PHP", "Bash", "SQL"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			unittests(t, "test_kernels."+class)
		})
	}
}

// TestNotebooks runs nbclient and nbconvert.
func TestNotebooks(t *testing.T) {
	t.Parallel()
	unittests(t, "test_notebooks")
}

// TestGatewayServer runs JupyterLab's packages against Jupyter Server with --gateway-url. See
// checks/gateway.mjs for the checks that it leaves out.
func TestGatewayServer(t *testing.T) {
	t.Parallel()
	s := server(t)
	port := freePort(t)
	var log bytes.Buffer
	cmd := exec.CommandContext(deadline(t), python, "-m", "jupyter_server", "--allow-root",
		"--no-browser", "--gateway-url="+s.URL+"/jupyter", fmt.Sprintf("--port=%d", port),
		"--ServerApp.port_retries=0", "--ServerApp.root_dir="+t.TempDir())
	cmd.Env = append(os.Environ(), "JUPYTER_GATEWAY_AUTH_TOKEN="+s.Token, "JUPYTER_TOKEN="+s.Token,
		"HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = &log, &log
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	url := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	testenv.Eventually(t, "Jupyter Server answers", func() bool {
		r, err := http.Get(url + "/api")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	checks(t, &e2e.Server{URL: url, Token: s.Token}, "@jupyterlab/services", "/", "gateway")
}

// freePort returns a port that no program uses.
func freePort(t *testing.T) int {
	t.Helper()
	address, err := testenv.FreeAddress()
	check(t, err)
	_, port, _ := net.SplitHostPort(address)
	n, err := strconv.Atoi(port)
	check(t, err)
	return n
}
