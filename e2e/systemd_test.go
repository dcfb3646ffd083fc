package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
)

// unit reads a setting of the server's unit file.
func unit(t *testing.T, name string) string {
	t.Helper()
	return unitOf(t, "sandgate", name)
}

// unitOf reads a setting of a unit file.
func unitOf(t *testing.T, service, name string) string {
	t.Helper()
	text, err := os.ReadFile("../deploy/systemd/" + service + ".service")
	check(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	t.Fatalf("the unit has no %s", name)
	return ""
}

// bounding returns the capabilities of a unit as setpriv reads them.
func bounding(t *testing.T, service string) string {
	t.Helper()
	all := "-all"
	for _, c := range strings.Fields(unitOf(t, service, "CapabilityBoundingSet")) {
		all += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	return all
}

// TestUnitIsValid checks the units with systemd-analyze.
func TestUnitIsValid(t *testing.T) {
	units, err := filepath.Glob("../deploy/systemd/*.service")
	check(t, err)
	if len(units) != 3 {
		t.Errorf("the units are %v", units)
	}
	bin, err := Bin("sandgate")
	check(t, err)
	for _, path := range units {
		text, err := os.ReadFile(path)
		check(t, err)
		text = bytes.ReplaceAll(text, []byte("/usr/lib/sandgate/sandgate"), []byte(bin))
		// This machine may have no such user.
		text = bytes.ReplaceAll(text, []byte("=sandgate\nGroup=sandgate\n"),
			[]byte("=daemon\nGroup=daemon\n"))
		copied := filepath.Join(t.TempDir(), filepath.Base(path))
		check(t, os.WriteFile(copied, text, 0o644))
		cmd := exec.CommandContext(deadline(t), "systemd-analyze", "verify", "--man=no", copied)
		out, err := cmd.CombinedOutput()
		if err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("systemd-analyze verify %s: %v\n%s", path, err, out)
		}
	}
	stop, err := time.ParseDuration(unit(t, "TimeoutStopSec"))
	if err != nil || stop < 95*time.Second {
		t.Errorf("TimeoutStopSec is %s, and the server takes up to 95 s", stop)
	}
}

// TestUnitIsEnough runs the server with only the rights that the unit gives it: its
// capabilities, no new privileges, a read-only filesystem except for its two folders, no
// home, and a separate /tmp. The server reports that it is ready, runs a cell and a
// terminal, hibernates and resumes, and keeps its session at the end. The test does not
// cover systemd's seccomp filter.
func TestUnitIsEnough(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	for _, name := range []string{"NoNewPrivileges", "ProtectHome", "PrivateTmp", "Delegate"} {
		if unit(t, name) != "yes" {
			t.Errorf("%s is %s", name, unit(t, name))
		}
	}
	if unit(t, "ProtectSystem") != "strict" {
		t.Error("ProtectSystem is not strict")
	}
	bin, err := Bin("sandgate")
	check(t, err)
	// The folder is not below /tmp, because the server gets another /tmp.
	dir, err := os.MkdirTemp("/run", "sandgate-unit-")
	check(t, err)
	defer os.RemoveAll(dir)
	check(t, os.Chmod(dir, 0o755))
	for _, d := range []string{"bin", "state", "run"} {
		check(t, os.Mkdir(filepath.Join(dir, d), 0o711))
	}
	address, err := testenv.FreeAddress()
	check(t, err)
	config := filepath.Join(dir, "config.yaml")
	check(t, os.WriteFile(config,
		fmt.Appendf(nil, "listen: %s\ndata_dir: %s/state\nrun_dir: %s/run\npool: {size: 1}\n",
			address, dir, dir), 0o644))
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{
		Name: filepath.Join(dir, "notify"),
		Net:  "unixgram",
	})
	check(t, err)
	defer ready.Close()
	script := `set -e
mount --make-rslave /
mount --bind ` + filepath.Dir(bin) + ` ` + dir + `/bin
for d in state run bin; do mount --bind ` + dir + `/$d ` + dir + `/$d; done
for m in /tmp /var/tmp /root /home; do mount -t tmpfs none $m; done
mount -o remount,bind,ro /
mount -o remount,bind,ro /run 2>/dev/null || true
! touch /etc/is-writable 2>/dev/null
exec setpriv --no-new-privs --inh-caps=-all --bounding-set=` + bounding(t, "sandgate") + ` \
	` + dir + `/bin/sandgate serve --config ` + config
	log, err := os.Create(filepath.Join(dir, "log"))
	check(t, err)
	defer log.Close()
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=" + dir + "/notify"}
	cmd.Stdout, cmd.Stderr = log, log
	check(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("%s", text[max(0, len(text)-4000):])
		}
	}()
	notified := make(chan string, 1)
	go func() {
		buf := make([]byte, 100)
		n, _ := ready.Read(buf)
		notified <- string(buf[:n])
	}()
	select {
	case state := <-notified:
		if state != "READY=1" {
			t.Errorf("the server notifies systemd of %q", state)
		}
	case err := <-ended:
		t.Fatalf("the server ended: %v", err)
	case <-ctx.Done():
		cmd.Process.Signal(syscall.SIGTERM)
		t.Fatalf("the server did not become ready: %v", <-ended)
	}
	token, err := os.ReadFile(filepath.Join(dir, "state", "token"))
	check(t, err)
	srv := &Server{URL: "http://" + address, Token: strings.TrimSpace(string(token)), Dir: dir}
	s := open(t, srv)
	s.run(
		"ok", "x = 42\nopen('f', 'w').write('kept')\nimport subprocess\nassert subprocess.run(['id', '-un'], capture_output=True).stdout")
	term := s.terminal(protocol.ChannelOpen{})
	term.do("echo he''re", "here")
	_, err = s.client.HibernateSession(ctx, s.id)
	check(t, err)
	if got := s.run("ok", "x, open('f').read()").result(t); got != "(42, 'kept')" {
		t.Errorf("resumed: %s", got)
	}
	_, err = s.client.CreateVolume(ctx, protocol.VolumeCreate{Name: "v"})
	check(t, err)
	with, err := s.client.CreateSession(ctx,
		protocol.SessionCreate{Volumes: []protocol.Mount{{Name: "v"}}})
	check(t, err)
	if out, err := command(ctx, t, srv, "exec", with.ID, "--", "sh", "-c",
		"cd /volumes/v && echo x > f && chmod 640 f && touch -d 2001-01-01 f && mv f g && stat -c '%U %a %Y' g"); err != nil || out != "user 640 978307200\n" {
		t.Errorf("in a volume: %q, %v", out, err)
	}
	c, err := wire.New(srv.URL, srv.Token, wire.Options{})
	check(t, err)
	check(t, c.Health(ctx))
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-ended:
		check(t, err)
	case <-ctx.Done():
		cmd.Process.Kill()
		t.Fatal("the server did not end")
	}
	if saved, _ := filepath.Glob(filepath.Join(dir, "state", "node", "sessions", s.id,
		"session.json")); len(saved) != 1 {
		t.Error("the session was not kept")
	}
}
