package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/testenv"
)

// containerCaps are the capabilities that deploy/container/README.md lists.
func containerCaps() []uintptr {
	return []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_CHOWN,
		unix.CAP_KILL, unix.CAP_DAC_OVERRIDE, unix.CAP_SYS_CHROOT, unix.CAP_FOWNER, unix.CAP_FSETID,
	}
}

// container describes a container to an engine.
type container struct {
	Root string
	// Mounts are folders of the host, by their paths in the container.
	Mounts map[string]bind
	// Args are the arguments after the program's name.
	Args []string
	// ReadOnly makes the root read-only, except for the mounts.
	ReadOnly bool
	// Caps are the largest set of capabilities. User is the id of the user and the group.
	Caps []uintptr
	User int
	// Privileged allows the program to gain capabilities.
	Privileged bool
	// Apart gives the container process ids of its own. The program has id 1.
	Apart bool
}

// bind is a folder of the host in a container. An empty From means a new tmpfs.
type bind struct {
	From     string
	ReadOnly bool
}

// command returns the command that becomes the container's program.
func (c container) command() (*exec.Cmd, error) {
	spec, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"SANDGATE_TEST_CONTAINER=" + string(spec), "HOME=/var/lib/sandgate"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if c.Apart {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID
	}
	return cmd, nil
}

// containerMain does the work of a container engine. It enters the given root,
// with the host's /proc, /sys and /dev and the requested mounts, and executes the
// server. It runs in a mount namespace of its own.
func containerMain(spec string) error {
	runtime.LockOSThread() // capabilities belong to a thread
	var c container
	if err := json.Unmarshal([]byte(spec), &c); err != nil {
		return err
	}
	root := c.Root
	type mount struct {
		from, to, kind string
		flags          uintptr
	}
	all := []mount{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{root, root, "", syscall.MS_BIND},
		{"/proc", root + "/proc", "", syscall.MS_BIND | syscall.MS_REC},
		{"/sys", root + "/sys", "", syscall.MS_BIND | syscall.MS_REC},
		{"/dev", root + "/dev", "", syscall.MS_BIND | syscall.MS_REC},
	}
	if c.Apart {
		all[2] = mount{"proc", root + "/proc", "proc", 0}
	}
	if c.ReadOnly {
		all = append(all, mount{
			"", root, "",
			syscall.MS_REMOUNT | syscall.MS_BIND | syscall.MS_RDONLY,
		})
	}
	for to, b := range c.Mounts {
		if b.From == "" {
			all = append(all, mount{"none", root + to, "tmpfs", 0})
			continue
		}
		all = append(all, mount{b.From, root + to, "", syscall.MS_BIND})
		if b.ReadOnly {
			all = append(all, mount{
				"", root + to, "",
				syscall.MS_REMOUNT | syscall.MS_BIND | syscall.MS_RDONLY,
			})
		}
	}
	for _, m := range all {
		if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.to, err)
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root is mounted over the new one, and is then unmounted.
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for cap := uintptr(0); cap <= unix.CAP_LAST_CAP && !c.Privileged; cap++ {
		if !slices.Contains(c.Caps, cap) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, cap, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if c.User != 0 {
		if err := errors.Join(syscall.Setgroups([]int{c.User}), syscall.Setgid(c.User),
			syscall.Setuid(c.User)); err != nil {
			return err
		}
	}
	if !c.Privileged {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	return syscall.Exec("/usr/bin/sandgate", append([]string{"sandgate"}, c.Args...), os.Environ())
}

// TestContainerIsEnough runs the server in the tree that the container image is
// made of, with the capabilities that its page names.
func TestContainerIsEnough(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	bin, err := Bin("sandgate")
	check(t, err)
	// It is beside the files of bin, so that they can be linked.
	dir, err := os.MkdirTemp(filepath.Dir(bin), ".container-")
	check(t, err)
	defer os.RemoveAll(dir)
	check(t, os.Chmod(dir, 0o755))
	root := filepath.Join(dir, "root")
	out, err := exec.CommandContext(ctx, "../deploy/container/rootfs", root).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address, err := testenv.FreeAddress()
	check(t, err)
	said, err := os.Create(filepath.Join(dir, "log"))
	check(t, err)
	defer said.Close()
	cmd, err := container{
		Root: root, Args: []string{"serve"}, Caps: containerCaps(),
		Mounts: map[string]bind{"/run/sandgate": {}, "/tmp": {}},
	}.command()
	check(t, err)
	// Cgroups have the folder's name. Other processes of this machine share them.
	cmd.Env = append(cmd.Env, "SANDGATE_LISTEN="+address, "SANDGATE_POOL_SIZE=1",
		"SANDGATE_RUN_DIR=/run/sandgate/"+filepath.Base(dir))
	cmd.Stdout, cmd.Stderr = said, said
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
		case <-time.After(3 * time.Minute):
			cmd.Process.Kill()
			t.Error("the server did not end")
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

// TestContainerfileAndCompose checks that the files that they name exist, and that
// no port is published without a proxy.
func TestContainerfileAndCompose(t *testing.T) {
	file := string(mustRead(t, "../deploy/container/Containerfile"))
	for _, want := range []string{
		"FROM scratch\n", "\nCOPY program /\n",
		`ENTRYPOINT ["/usr/bin/sandgate"]`, "STOPSIGNAL SIGTERM", "VOLUME /var/lib/sandgate",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("the Containerfile has no %s", want)
		}
	}
	page := string(mustRead(t, "../deploy/container/README.md"))
	for _, c := range strings.Fields(unit(t, "CapabilityBoundingSet")) {
		if c = strings.TrimPrefix(c, "CAP_"); !strings.Contains(page, c) {
			t.Errorf("the container's page lacks %s, which the unit has", c)
		}
	}
	compose := readCompose(t, "compose.yaml")
	s := compose.Services["sandgate"]
	stop, err := time.ParseDuration(s.Stop)
	if err != nil || stop < 95*time.Second {
		t.Errorf("stop_grace_period is %s, and the server takes up to 95 s", s.Stop)
	}
}

// compose is the part of Compose's format that the files use.
type compose struct {
	Services map[string]service
	Volumes  map[string]struct{}
	Networks map[string]struct{ Internal bool }
	Configs  map[string]struct{ Content string }
	Gateway  service `yaml:"x-gateway"`
}

type service struct {
	Image, Command, Restart, User string
	Build                         struct{ Context, Dockerfile string }
	Privileged                    bool
	ReadOnly                      bool     `yaml:"read_only"`
	Drop                          []string `yaml:"cap_drop"`
	Security                      []string `yaml:"security_opt"`
	Environment                   map[string]string
	Volumes, Tmpfs                []string
	Expose, Ports, Networks       []string
	Configs                       []struct{ Source, Target string }
	Health                        struct {
		Disable  bool
		Test     []string
		Interval string
		Timeout  string
		Start    string `yaml:"start_period"`
	} `yaml:"healthcheck"`
	Stop    string   `yaml:"stop_grace_period"`
	Depends []string `yaml:"depends_on"`
}

// readCompose reads a file of deploy/compose strictly, and checks that everything
// it refers to exists.
func readCompose(t *testing.T, name string) (c compose) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(string(mustRead(t, "../deploy/compose/"+name))))
	d.KnownFields(true)
	check(t, d.Decode(&c))
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if from == ".." || strings.HasPrefix(from, "../") {
				mustRead(t, filepath.Join("../deploy/compose", from))
			} else if _, ok := c.Volumes[from]; !ok &&
				!strings.HasPrefix(v, "${SANDGATE_SECRETS:-") {
				t.Errorf("%s: there is no volume %s", name, from)
			}
		}
		for _, d := range s.Depends {
			if _, ok := c.Services[d]; !ok {
				t.Errorf("%s: there is no service %s", name, d)
			}
		}
		for _, n := range s.Networks {
			if _, ok := c.Networks[n]; !ok {
				t.Errorf("%s: there is no network %s", name, n)
			}
		}
		for _, f := range s.Configs {
			if c.Configs[f.Source].Content == "" {
				t.Errorf("%s: there is no config %s", name, f.Source)
			}
		}
		if name != "caddy" && len(s.Ports) > 0 {
			t.Errorf("%s, which speaks no TLS, is published: %v", name, s.Ports)
		}
		// Only a user who builds the image has it.
		if file := filepath.Join("../deploy/compose", s.Build.Context,
			s.Build.Dockerfile); s.Image == "sandgate:latest" &&
			file != "../deploy/container/Containerfile" {
			t.Errorf("%s is built from %s", name, file)
		}
	}
	return c
}

// TestComposeCluster checks that the settings of compose's cluster load, that each
// file they name is mounted and created by the script for the service's user only,
// that the services name each other, and that Caddy accepts its file.
func TestComposeCluster(t *testing.T) {
	c := readCompose(t, "cluster.yaml")
	if !c.Networks["back"].Internal || c.Networks["front"].Internal {
		t.Errorf("the networks: %+v", c.Networks)
	}
	dir := filepath.Join(t.TempDir(), "made")
	bin, err := Bin("sandgate")
	check(t, err)
	for range 2 {
		made := exec.Command("../deploy/compose/secrets", dir)
		made.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
		if out, err := made.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	users := map[string]uint32{"node": 0, "gateway": 998, "redis": 999}
	settings := map[string]*config.Config{}
	for name, s := range c.Services {
		if name == "caddy" {
			continue
		}
		what, _, _ := strings.Cut(name, "-")
		if user := fmt.Sprintf("%d:%[1]d", users[what]); s.User != user && what != "node" {
			t.Errorf("%s is the user %s, and its secrets are %s's", name, s.User, user)
		}
		files, _ := filepath.Glob(filepath.Join(dir, what, "*"))
		for _, f := range files {
			info, err := os.Stat(f)
			check(t, err)
			if owner := info.Sys().(*syscall.Stat_t).Uid; owner != users[what] ||
				info.Mode().Perm()&0o077 != 0 && filepath.Ext(f) != ".crt" {
				t.Errorf("%s belongs to user %d, with %s", f, owner, info.Mode())
			}
		}
		has := func(path string) {
			for _, v := range s.Volumes {
				from, to, _ := strings.Cut(strings.TrimPrefix(v,
					"${SANDGATE_SECRETS:-/etc/sandgate/compose}"), ":")
				to, _, _ = strings.Cut(to, ":")
				if rest, ok := strings.CutPrefix(path, to+"/"); ok && from == "/"+what {
					mustRead(t, filepath.Join(dir, from, rest))
					return
				}
			}
			t.Errorf("%s: nothing is mounted at %s", name, path)
		}
		if what == "redis" {
			has("/run/secrets/redis/users.acl")
			continue
		}
		var env []string
		for key, value := range s.Environment {
			if !slices.ContainsFunc(config.Fields(config.Default()),
				func(f config.Field) bool { return f.Env == key }) && key != "GOGC" {
				t.Errorf("%s: there is no setting %s", name, key)
			}
			env = append(env, key+"="+
				strings.ReplaceAll(value, "${SANDGATE_HOST:?the name that browsers use}",
					proxyName))
		}
		cfg, err := config.Load(nil, append(env, "SANDGATE_CONFIG=/dev/null"))
		check(t, err)
		settings[what] = cfg
		has(cfg.Cluster.Password)
		has(cfg.Cluster.Dir + "/" + what + ".key")
		if _, ok := c.Services[strings.TrimSuffix(strings.TrimPrefix(cfg.Cluster.Redis, "redis://"),
			":6379/0")]; !ok {
			t.Errorf("%s: there is no %s", name, cfg.Cluster.Redis)
		}
		stop, err := time.ParseDuration(s.Stop)
		least := 35 * time.Second
		if what == "node" {
			least = 110*time.Second + time.Duration(cfg.Cluster.Drain)
			has(cfg.Cluster.Dir + "/keys.secret")
		} else {
			has(cfg.TokenFile())
			if !slices.Equal(s.Drop, []string{"ALL"}) || !s.ReadOnly || s.Privileged {
				t.Errorf("%s has more rights than it needs", name)
			}
		}
		if err != nil || stop < least {
			t.Errorf("%s has %s to end, and may need %s", name, s.Stop, least)
		}
	}
	if n := settings["node"].Cluster; n.Address != n.Node+n.Listen ||
		c.Services[n.Node].Command != "node" {
		t.Errorf("gateways expect the node at %s", n.Address)
	}
	file := filepath.Join(t.TempDir(), "Caddyfile")
	text := strings.ReplaceAll(c.Configs["caddy"].Content, "${SANDGATE_HOST}", proxyName)
	for _, to := range []string{"gateway-1:8080", "gateway-2:8080"} {
		if !strings.Contains(text, to) {
			t.Errorf("Caddy's file does not name %s", to)
		}
	}
	check(t, os.WriteFile(file, []byte(text), 0o644))
	adapt := exec.Command("caddy", "validate", "--adapter", "caddyfile", "--config", file)
	adapt.Env = []string{"HOME=" + filepath.Dir(file)}
	if out, err := adapt.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
