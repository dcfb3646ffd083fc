package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/process"
)

// shared is used by all tests.
var shared struct {
	exe  string       // a copy of this binary that every user may execute
	rigs atomic.Int32 // how many agents were started
}

// TestMain also runs the agent and the driver that the tests start.
func TestMain(m *testing.M) {
	os.Exit(agenttest.Main(m, &shared.exe, map[string]func() int{
		"agent": agentMain, "driver": func() int { driverMain(); return 0 },
	}, nil))
}

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
		Langs: filepath.Join(root, "langs"), Home: filepath.Join(root, "home"),
		MachineID:    filepath.Join(root, "machine-id"),
		ReadyTimeout: 2 * time.Minute, KillGrace: 300 * time.Millisecond,
		SetHostname: func(name string) error {
			return os.WriteFile(filepath.Join(root, "hostname"), []byte(name), 0o644)
		},
	}
	if err := process.Prepare(process.Limits{Processes: procs}); err != nil {
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
		"test":    {"interrupt": "signal", "aliases": []string{"t"}},
		"message": {"interrupt": "message"},
		"broken":  {"argv": []string{"/bin/sh", "-c", "echo the reason >&2; exit 3"}},
		"missing": {"argv": []string{"/nowhere/driver"}},
		"never":   {"argv": []string{"/bin/sleep", "1000"}},
		"noframes": {"argv": []string{
			"/bin/sh", "-c",
			"echo 0123456789abcdefgh >&4; exec sleep 1000",
		}},
	} {
		m["name"] = name
		env := agenttest.DriverEnv()
		env["MANIFEST"] = name
		m["env"] = env
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
