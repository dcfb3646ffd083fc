package e2e

import (
	"os"
	"os/exec"
	"testing"
)

// TestJupyterKernels runs Jupyter's own tests of kernels for Python, Bash and SQL,
// over ZMQ and a bridge to the WebSocket. It needs Debian's
// python3-jupyter-kernel-test, python3-ipykernel and python3-websocket.
func TestJupyterKernels(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3" // Debian's Python, which finds Debian's packages
	if err := exec.Command(python, "-c",
		"import jupyter_kernel_test, ipykernel, websocket").Run(); err != nil {
		t.Fatal(
			"install python3-jupyter-kernel-test, python3-ipykernel and python3-websocket to run Jupyter's own tests")
	}
	cmd := exec.CommandContext(deadline(t), python, "-B", "-m", "unittest", "-v", "test_kernels")
	cmd.Dir = "jupyter"
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
