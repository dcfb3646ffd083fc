package session

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/sandgate/sandgate/internal/testenv"
)

// The test binary is also the agent and the language driver that the native
// tests start: the variable SANDGATE_TEST says which.
func init() {
	if os.Getenv("SANDGATE_TEST") == "agent" {
		runtime.LockOSThread() // as cmd/agent does
	}
}

// built is what the tests need and did not make themselves.
var built struct {
	exe, runsc, image string
}

func TestMain(m *testing.M) {
	switch os.Getenv("SANDGATE_TEST") {
	case "agent":
		os.Exit(agentMain())
	case "driver":
		driverMain()
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	find := func(variable, name string) (string, bool) {
		file := os.Getenv(variable)
		if file == "" {
			file = testenv.Path("bin", name)
		}
		file, err := filepath.Abs(file)
		if err != nil {
			return "", false
		}
		_, err = os.Stat(file)
		return file, err == nil
	}
	var okRunsc, okImage bool
	built.runsc, okRunsc = find("SANDGATE_RUNSC", "runsc")
	built.image, okImage = find("SANDGATE_IMAGE", "image.erofs")
	if !okRunsc || !okImage {
		fmt.Fprintf(os.Stderr, "these tests run real sandboxes: %s or %s is not there; run make build, or set SANDGATE_RUNSC and SANDGATE_IMAGE\n", built.runsc, built.image)
		return 1
	}
	dir, err := os.MkdirTemp("", "sandgate-session")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		// A copy that the sandbox's user may execute.
		built.exe = filepath.Join(dir, "session.test")
		err = copyFile(built.exe, "/proc/self/exe")
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
