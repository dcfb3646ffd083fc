package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the agent and the driver that the tests start. The variable SANDGATE_TEST
// selects one. The agent is a separate process because it collects all children of its process.
func init() {
	if os.Getenv("SANDGATE_TEST") == "agent" {
		runtime.LockOSThread() // as cmd/agent does
	}
}

// shared is used by all tests.
var shared struct {
	exe  string       // a copy of this binary that every user may execute
	rigs atomic.Int32 // how many agents were started
}

func TestMain(m *testing.M) {
	switch os.Getenv("SANDGATE_TEST") {
	case "agent":
		os.Exit(agentMain())
	case "driver":
		driverMain()
		os.Exit(0)
	case "spawner":
		os.Exit(spawnerMain())
	}
	dir, err := os.MkdirTemp("", "sandgate-agent")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		shared.exe = filepath.Join(dir, "agent.test")
		err = copyFile(shared.exe, "/proc/self/exe")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
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

// exitAtOnce disables the race detector's sleep of one second at the end of a process.
const exitAtOnce = "GORACE=atexit_sleep_ms=0"

// agentMain is cmd/agent with folders of the test.
func agentMain() int {
	// A nohup makes this process ignore SIGHUP. Processes that the agent starts must not inherit
	// that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	root := os.Getenv("SANDGATE_ROOT")
	procs, _ := strconv.ParseUint(os.Getenv("SANDGATE_PROCS"), 10, 64)
	uid, _ := strconv.Atoi(os.Getenv("SANDGATE_UID")) // 0 means the default
	cfg := Config{
		UID:   uid,
		Langs: filepath.Join(root, "langs"), Home: filepath.Join(root, "home"), MachineID: filepath.Join(root, "machine-id"),
		ReadyTimeout: 10 * time.Second, KillGrace: 300 * time.Millisecond,
		SetHostname: func(name string) error {
			return os.WriteFile(filepath.Join(root, "hostname"), []byte(name), 0o644)
		},
	}
	if err := Prepare(Limits{Processes: procs}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := NewServer(cfg).Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// writeManifests creates the languages test (interrupted by a signal), message (by a message), and
// some that do not start.
func writeManifests(root, exe string) error {
	for name, m := range map[string]map[string]any{
		"test":     {"interrupt": "signal", "aliases": []string{"t"}},
		"message":  {"interrupt": "message"},
		"broken":   {"argv": []string{"/bin/sh", "-c", "echo the reason >&2; exit 3"}},
		"missing":  {"argv": []string{"/nowhere/driver"}},
		"never":    {"argv": []string{"/bin/sleep", "1000"}},
		"noframes": {"argv": []string{"/bin/sh", "-c", "echo 0123456789abcdefgh >&4; exec sleep 1000"}},
	} {
		m["name"] = name
		m["env"] = map[string]string{"SANDGATE_TEST": "driver", "MANIFEST": name, "GORACE": strings.TrimPrefix(exitAtOnce, "GORACE=")}
		if m["argv"] == nil {
			m["argv"] = []string{exe}
		}
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		dir := filepath.Join(root, "langs", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "manifest.json"), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
