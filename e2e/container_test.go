package e2e

import (
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

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// containerCaps are those of deploy/container/README.md.
func containerCaps() []uintptr {
	return []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN, unix.CAP_KILL, unix.CAP_DAC_OVERRIDE, unix.CAP_SYS_CHROOT, unix.CAP_FOWNER, unix.CAP_FSETID}
}

// containerMain does what a container engine would: it enters the root that it
// is given, with /proc, /sys and /dev of the host and nothing else, and becomes
// the server. It runs in a mount namespace of its own.
func containerMain(root string) error {
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{root, root, "", syscall.MS_BIND},
		{"/proc", root + "/proc", "", syscall.MS_BIND | syscall.MS_REC},
		{"/sys", root + "/sys", "", syscall.MS_BIND | syscall.MS_REC},
		{"/dev", root + "/dev", "", syscall.MS_BIND | syscall.MS_REC},
		{"none", root + "/run/sandgate", "tmpfs", 0},
		{"none", root + "/tmp", "tmpfs", 0},
	} {
		if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.to, err)
		}
	}
	old := filepath.Join(root, "etc", "old")
	if err := os.MkdirAll(old, 0o700); err != nil {
		return err
	}
	if err := syscall.PivotRoot(root, old); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := syscall.Unmount("/etc/old", syscall.MNT_DETACH); err != nil {
		return err
	}
	keep := map[uintptr]bool{}
	for _, c := range containerCaps() {
		keep[c] = true
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if !keep[c] {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec("/usr/bin/sandgate", []string{"sandgate", "serve"}, os.Environ())
}

// TestContainerIsEnough runs the server in the tree that the container image
// is made of, with the capabilities that its page names.
func TestContainerIsEnough(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 2*time.Minute)
	defer cancel()
	bin, err := Bin("sandgate")
	check(t, err)
	// Beside bin/'s files, so that they can be linked.
	dir, err := os.MkdirTemp(filepath.Dir(bin), ".container-")
	check(t, err)
	defer os.RemoveAll(dir)
	check(t, os.Chmod(dir, 0o755))
	root := filepath.Join(dir, "root")
	out, err := exec.CommandContext(ctx, "../deploy/container/rootfs", root).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address := l.Addr().String()
	l.Close()
	said, err := os.Create(filepath.Join(dir, "log"))
	check(t, err)
	defer said.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"SANDGATE_TEST_CONTAINER=" + root, "HOME=/var/lib/sandgate", "SANDGATE_LISTEN=" + address, "SANDGATE_POOL_SIZE=1"}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	check(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(60 * time.Second):
			cmd.Process.Kill()
			t.Error("the server does not end")
		}
		if t.Failed() {
			text, _ := os.ReadFile(said.Name())
			t.Logf("%s", text[max(0, len(text)-4000):])
		}
	}()
	srv := &Server{URL: "http://" + address, Dir: dir}
	for {
		token, _ := os.ReadFile(filepath.Join(root, "var/lib/sandgate/token"))
		if srv.Token = strings.TrimSpace(string(token)); srv.Token != "" && srv.warm(ctx) {
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the server ended: %v", err)
		case <-ctx.Done():
			t.Fatal("the server did not become ready")
		case <-time.After(50 * time.Millisecond):
		}
	}
	s := open(t, srv)
	if got := s.run("ok", "6 * 7").result(t); got != "42" {
		t.Errorf("a cell: %s", got)
	}
	_, err = s.client.HibernateSession(ctx, s.id)
	check(t, err)
	s.run("ok", "1")
}

// TestContainerfileAndCompose: what they name is there, and nothing of it is
// published without a proxy.
func TestContainerfileAndCompose(t *testing.T) {
	file := string(mustRead(t, "../deploy/container/Containerfile"))
	for _, want := range []string{"FROM scratch\n", "COPY . /\n", `ENTRYPOINT ["/usr/bin/sandgate"]`, "STOPSIGNAL SIGTERM", "VOLUME /var/lib/sandgate"} {
		if !strings.Contains(file, want) {
			t.Errorf("the Containerfile has no %s", want)
		}
	}
	page := string(mustRead(t, "../deploy/container/README.md"))
	for _, c := range strings.Fields(unit(t, "CapabilityBoundingSet")) {
		if c = strings.TrimPrefix(c, "CAP_"); !strings.Contains(page, c) {
			t.Errorf("the container's page has not %s, which the unit has", c)
		}
	}
	var compose struct {
		Services map[string]struct {
			Image, Command, Restart string
			Build                   struct{ Context, Dockerfile string }
			Privileged              bool
			Environment             map[string]string
			Volumes, Tmpfs          []string
			Expose, Ports           []string
			Stop                    string   `yaml:"stop_grace_period"`
			Depends                 []string `yaml:"depends_on"`
		}
		Volumes map[string]struct{}
	}
	d := yaml.NewDecoder(strings.NewReader(string(mustRead(t, "../deploy/compose/compose.yaml"))))
	d.KnownFields(true)
	check(t, d.Decode(&compose))
	s := compose.Services["sandgate"]
	if len(s.Ports) > 0 {
		t.Errorf("the gateway, which speaks no TLS, is published: %v", s.Ports)
	}
	if file := filepath.Join("../deploy/compose", s.Build.Context, s.Build.Dockerfile); file != "../deploy/container/Containerfile" {
		t.Errorf("it is built from %s", file)
	}
	for _, service := range compose.Services {
		for _, v := range service.Volumes {
			name, _, _ := strings.Cut(v, ":")
			if _, ok := compose.Volumes[name]; !ok {
				t.Errorf("there is no volume %s", name)
			}
		}
		for _, d := range service.Depends {
			if _, ok := compose.Services[d]; !ok {
				t.Errorf("there is no service %s", d)
			}
		}
	}
	stop, err := time.ParseDuration(s.Stop)
	if err != nil || stop < 95*time.Second {
		t.Errorf("stop_grace_period is %s, and the server takes up to 95 s", s.Stop)
	}
}
