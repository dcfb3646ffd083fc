package agenttest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A test binary also plays the agent and the drivers that its tests start. The
// variable SANDGATE_TEST has the name of the role. The agent is a process of its
// own because it collects all children of its process.
const roleVariable = "SANDGATE_TEST"

// exitAtOnce prevents that the race detector sleeps for a second before a
// process ends.
const exitAtOnce = "GORACE=atexit_sleep_ms=0"

func init() {
	if os.Getenv(roleVariable) == "agent" {
		runtime.LockOSThread() // as cmd/agent does
	}
}

// Main is the body of TestMain. In a process that plays a role it returns the
// result of that role's function. Otherwise it copies the test binary to a file
// that every user may execute, calls prepare, runs the tests, and returns their
// exit code. exe receives the path of the copy; prepare may be nil.
func Main(m *testing.M, exe *string, roles map[string]func() int, prepare func() error) int {
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		return role()
	}
	dir, err := os.MkdirTemp("", "sandgate-agent")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		*exe = filepath.Join(dir, "agent.test")
		err = copyFile(*exe, "/proc/self/exe")
	}
	if err == nil && prepare != nil {
		err = prepare()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// DriverEnv returns the variables with which the test binary plays a driver.
func DriverEnv() map[string]string {
	name, value, _ := strings.Cut(exitAtOnce, "=")
	return map[string]string{roleVariable: "driver", name: value}
}

// Process is an agent that runs without a sandbox.
type Process struct {
	Cmd *exec.Cmd
	In  *os.File // input of the agent
	Out *os.File // output of the agent
}

// Start starts exe, a copy of the test binary, as an agent whose folders are
// below root. The caller closes In, which ends the agent, waits for Cmd, and
// closes Out.
func Start(exe, root string, env ...string) (*Process, error) {
	cmd := exec.Command(exe)
	cmd.Env = append([]string{
		roleVariable + "=agent", exitAtOnce, "SANDGATE_ROOT=" + root, "PATH=" + os.Getenv("PATH"),
	}, env...)
	cmd.Stderr = os.Stderr
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	err = cmd.Start()
	_ = stdin.Close()
	_ = stdout.Close()
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return nil, err
	}
	return &Process{Cmd: cmd, In: in, Out: out}, nil
}
