package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// leftovers lists what sandboxes leave on a host: processes, mounts, cgroups and
// files with the server's folder or a sandbox's id in their names.
func leftovers(s *Server) []string {
	var found []string
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, s.Dir) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if cmd, _ := os.ReadFile(p); strings.Contains(string(cmd), s.Dir) {
			found = append(found, "process "+strings.ReplaceAll(string(cmd), "\x00", " "))
		}
	}
	state, _ := filepath.Glob(s.Dir + "/run/sandboxes/*/*")
	return append(found, state...)
}

// TestNoLeftovers stops one server in order and kills another, and lists what
// remains on the host.
func TestNoLeftovers(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	s, err := Start(ctx, "pool: {size: 1}")
	check(t, err)
	defer s.Stop()
	if len(s.Cgroups()) == 0 {
		t.Error("a running node has no cgroup of the name that this test expects")
	}
	t.Run("use", func(t *testing.T) { open(t, s).run("ok", "1") })
	c, err := wire.New(s.URL, s.Token, wire.Options{})
	check(t, err)
	_, err = c.CreateVolume(ctx, protocol.VolumeCreate{Name: "v"})
	check(t, err)
	volumes := func() {
		_, err := c.CreateSession(ctx, protocol.SessionCreate{
			Language: "bash",
			Volumes:  []protocol.Mount{{Name: "v"}},
		})
		check(t, err)
	}
	volumes()
	check(t, s.Halt(syscall.SIGTERM))
	if left := leftovers(s); len(left) > 0 {
		t.Errorf("after SIGTERM: %s", strings.Join(left, "\n"))
	}

	check(t, s.Boot(ctx))
	volumes()
	node, err := s.Child("node")
	check(t, err)
	check(t, syscall.Kill(node, syscall.SIGKILL))
	s.Halt(syscall.SIGKILL)
	check(t, s.Boot(ctx)) // removes what the killed server left
	check(t, s.Halt(syscall.SIGTERM))
	if left := leftovers(s); len(left) > 0 {
		t.Errorf("after SIGKILL and a new start: %s", strings.Join(left, "\n"))
	}
	if left := s.Cgroups(); len(left) > 0 {
		t.Errorf("after a stop: %s", strings.Join(left, "\n"))
	}
}
