package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const manifests = "../deploy/kubernetes/"

// manifest is the part of a Deployment or a DaemonSet that the test uses.
type manifest struct {
	Spec struct {
		Template struct {
			Spec struct {
				Security struct {
					User  int `yaml:"runAsUser"`
					Group int `yaml:"fsGroup"`
				} `yaml:"securityContext"`
				Init       []kubeContainer `yaml:"initContainers"`
				Containers []kubeContainer
				Volumes    []kubeVolume
			}
		}
	}
}

type kubeContainer struct {
	Args []string
	Env  []struct {
		Name, Value string
		From        *struct {
			Field struct {
				Path string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Security struct {
		Privileged bool
		ReadOnly   bool `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
	Lifecycle struct {
		PreStop struct {
			Exec struct{ Command []string }
		} `yaml:"preStop"`
	}
	Startup   kubeProbe `yaml:"startupProbe"`
	Liveness  kubeProbe `yaml:"livenessProbe"`
	Readiness kubeProbe `yaml:"readinessProbe"`
	Mounts    []struct {
		Name     string
		Path     string `yaml:"mountPath"`
		ReadOnly bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type kubeProbe struct {
	Exec struct{ Command []string }
	HTTP struct {
		Path    string
		Headers []struct{ Name, Value string } `yaml:"httpHeaders"`
	} `yaml:"httpGet"`
}

type kubeVolume struct {
	Name      string
	ConfigMap struct{ Name string } `yaml:"configMap"`
	Secret    struct {
		Name  string `yaml:"secretName"`
		Mode  int    `yaml:"defaultMode"`
		Items []struct{ Key, Path string }
	}
	Claim struct {
		Name string `yaml:"claimName"`
	} `yaml:"persistentVolumeClaim"`
	Host struct{ Path string } `yaml:"hostPath"`
}

// kubelet starts the containers of deploy/kubernetes/cluster like a kubelet: with the
// volumes, variables, users and rights of the manifests.
type kubelet struct {
	t       *testing.T
	dir     string // the pods' volumes
	root    string // the tree of the image
	configs map[string]map[string][]byte
	secrets map[string]map[string][]byte
	log     *os.File
}

func readManifest[T any](t *testing.T, name string) (v T) {
	t.Helper()
	f, err := os.Open(manifests + name)
	check(t, err)
	defer f.Close()
	check(t, yaml.NewDecoder(f).Decode(&v))
	return v
}

// newKubelet creates the image's tree, the config maps and the secrets as the page of
// the folder describes.
func newKubelet(t *testing.T) *kubelet {
	bin, err := Bin("sandgate")
	check(t, err)
	// It is beside the files of bin, so that they can be linked.
	dir, err := os.MkdirTemp(filepath.Dir(bin), ".pods-")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	check(t, os.Chmod(dir, 0o755))
	k := &kubelet{
		t: t, dir: dir, root: filepath.Join(dir, "root"),
		configs: map[string]map[string][]byte{}, secrets: map[string]map[string][]byte{},
	}
	if out, err := exec.Command("../deploy/container/rootfs", k.root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	k.log, err = os.Create(filepath.Join(dir, "log"))
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(k.log.Name())
			t.Logf("%s", said[max(0, len(said)-8000):])
		}
		check(t, k.log.Close())
	})
	for _, g := range readManifest[struct {
		Maps []struct {
			Name  string
			Files []string
		} `yaml:"configMapGenerator"`
	}](t, "cluster/kustomization.yaml").Maps {
		k.configs[g.Name] = map[string][]byte{}
		for _, f := range g.Files {
			key, path, _ := strings.Cut(f, "=")
			k.configs[g.Name][key] = mustRead(t, manifests+"cluster/"+path)
		}
	}
	made := exec.Command(manifests+"secrets", filepath.Join(dir, "cluster"))
	made.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	out, err := made.Output()
	check(t, err)
	for d := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var s struct {
			Metadata struct{ Name string }
			Data     map[string]string
		}
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			return k
		} else if err != nil {
			t.Fatal(err)
		}
		k.secrets[s.Metadata.Name] = map[string][]byte{}
		for key, value := range s.Data {
			k.secrets[s.Metadata.Name][key], err = base64.StdEncoding.DecodeString(value)
			check(t, err)
		}
	}
}

// fill creates a volume. A volume from neither a config map nor a secret is empty.
func (k *kubelet) fill(pod string, v kubeVolume, group int) string {
	dir := filepath.Join(k.dir, pod, v.Name)
	if v.Claim.Name != "" {
		dir = filepath.Join(k.dir, "claims", v.Claim.Name) // one for all pods
	} else if v.Host.Path == "" {
		check(k.t, os.RemoveAll(dir)) // an earlier pod may have left it
	}
	check(k.t, os.MkdirAll(dir, 0o755))
	files, mode := k.configs[v.ConfigMap.Name], 0o644
	if v.Secret.Name != "" {
		files, mode = k.secrets[v.Secret.Name], v.Secret.Mode
		if len(v.Secret.Items) > 0 {
			files = map[string][]byte{}
			for _, i := range v.Secret.Items {
				files[i.Path] = k.secrets[v.Secret.Name][i.Key]
			}
		}
		if group != 0 {
			mode |= 0o440
		}
	}
	if files == nil {
		check(k.t, os.Chmod(dir, 0o777))
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		check(k.t, os.WriteFile(path, text, 0o600))
		check(k.t, os.Chown(path, 0, group))
		check(k.t, os.Chmod(path, os.FileMode(mode)))
	}
	return dir
}

// pod is a started pod, with its container's startup probe.
type pod struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the pod has ended; err is set then
	err   error
	env   []string
	main  kubeContainer
}

// start runs a pod: its init containers to their ends, then the first of its other
// containers. env is added to the pod's variables, which may refer to fields.
func (k *kubelet) start(name string, m manifest, fields map[string]string, env ...string) *pod {
	k.t.Helper()
	spec := m.Spec.Template.Spec
	from := map[string]string{}
	for _, v := range spec.Volumes {
		from[v.Name] = k.fill(name, v, spec.Security.Group)
	}
	command := func(c kubeContainer) *exec.Cmd {
		known := []string{}
		for _, e := range c.Env {
			if e.From != nil {
				e.Value = fields[e.From.Field.Path]
			}
			known = append(known, "$("+e.Name+")", strings.NewReplacer(known...).Replace(e.Value))
		}
		box := container{
			Root: k.root, Mounts: map[string]bind{}, User: spec.Security.User,
			ReadOnly: c.Security.ReadOnly, Privileged: c.Security.Privileged, Apart: true,
		}
		for _, a := range c.Args {
			box.Args = append(box.Args, strings.NewReplacer(known...).Replace(a))
		}
		for _, mount := range c.Mounts {
			// like an engine, before the root is read-only
			check(k.t, os.MkdirAll(k.root+mount.Path, 0o755))
			box.Mounts[mount.Path] = bind{From: from[mount.Name], ReadOnly: mount.ReadOnly}
		}
		cmd, err := box.command()
		check(k.t, err)
		for i := 0; i < len(known); i += 2 {
			cmd.Env = append(cmd.Env, strings.Trim(known[i], "$()")+"="+known[i+1])
		}
		cmd.Env = append(cmd.Env, env...)
		cmd.Stdout, cmd.Stderr = k.log, k.log
		return cmd
	}
	for _, c := range spec.Init {
		check(k.t, command(c).Run())
	}
	p := &pod{main: spec.Containers[0], ended: make(chan struct{})}
	p.cmd = command(p.main)
	p.env = p.cmd.Env[1:]
	check(k.t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	k.t.Cleanup(func() { p.end(k.t, name) })
	return p
}

// started calls the startup probe until it succeeds, then the other probes once.
func (p *pod) started(t *testing.T, url string) {
	t.Helper()
	eventually(t, "a pod's start", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("the pod ended: %v", p.err)
		default:
		}
		return p.ask(t, p.main.Startup, url)
	})
	if !p.ask(t, p.main.Liveness, url) || !p.ask(t, p.main.Readiness, url) {
		t.Error("a pod that has started is not live, or not ready")
	}
}

func (p *pod) ask(t *testing.T, probe kubeProbe, url string) bool {
	t.Helper()
	if len(probe.Exec.Command) > 0 {
		return p.exec(probe.Exec.Command).Run() == nil
	}
	req, err := http.NewRequestWithContext(deadline(t), http.MethodGet, url+probe.HTTP.Path, nil)
	check(t, err)
	for _, h := range probe.HTTP.Headers {
		req.Host = h.Value // the probes set no other header
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// exec returns a command in the pod's container.
func (p *pod) exec(command []string) *exec.Cmd {
	pid := strconv.Itoa(p.cmd.Process.Pid)
	cmd := exec.Command("nsenter", append([]string{"-t", pid, "-m", "-p", "--"}, command...)...)
	cmd.Env = p.env
	return cmd
}

// end ends the pod like a kubelet, after its hook, unless it has ended.
func (p *pod) end(t *testing.T, what string) {
	t.Helper()
	select {
	case <-p.ended:
	default:
		if hook := p.main.Lifecycle.PreStop.Exec.Command; len(hook) > 0 {
			if out, err := p.exec(hook).CombinedOutput(); err != nil {
				t.Errorf("the hook of %s: %v: %s", what, err, out)
			}
		}
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		if p.err != nil {
			t.Errorf("%s: %v", what, p.err)
		}
	case <-time.After(3 * time.Minute):
		t.Errorf("%s did not end", what)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// TestKubernetesCluster runs the manifests of deploy/kubernetes/cluster on this machine:
// Redis with its settings, nodes and two gateways in the image's tree, with the secrets of
// the script, the settings of the config maps and the component with a shared folder. Only
// addresses and the lease differ. A cell runs through both gateways, and its session
// survives the pod of its node.
func TestKubernetesCluster(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	k := newKubelet(t)
	redis := freeAddress(t)
	_, redisPort, _ := net.SplitHostPort(redis)

	acl := filepath.Join(k.dir, "users.acl")
	check(t, os.WriteFile(acl, k.secrets["sandgate-redis"]["users.acl"], 0o600))
	conf := filepath.Join(k.dir, "redis.conf")
	here := strings.NewReplacer("dir /data\n", "dir "+k.dir+"\n", "/run/secrets/redis/users.acl",
		acl)
	check(t, os.WriteFile(conf,
		[]byte(here.Replace(string(k.configs["sandgate-redis"]["redis.conf"]))), 0o644))
	server := exec.Command("redis-server", conf, "--port", redisPort, "--bind", "127.0.0.1")
	server.Stdout, server.Stderr = k.log, k.log
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	// ask sends lines to Redis and returns the first line of each answer.
	ask := func(lines ...string) (answers []string) {
		conn, err := net.Dial("tcp", redis)
		if err != nil {
			return nil
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
		for _, line := range lines {
			fmt.Fprintf(conn, "%s\r\n", line)
			b := make([]byte, 512)
			n, _ := conn.Read(b)
			answers = append(answers, strings.TrimSpace(string(b[:n])))
		}
		return answers
	}
	eventually(t, "Redis", func() bool { return ask("PING") != nil })
	password := string(k.secrets["sandgate-redis"]["password"])
	said := ask("PING", "AUTH sandgate "+password, "PING", "FLUSHALL", "SHUTDOWN NOSAVE",
		"CONFIG GET dir", "GET other", "CONFIG REWRITE")
	for i, want := range []string{
		"-NOAUTH", "+OK", "+PONG", "-NOPERM", "-NOPERM", "-NOPERM",
		"-NOPERM", "-NOPERM",
	} {
		if i >= len(said) || !strings.HasPrefix(said[i], want) {
			t.Fatalf("Redis answers %q, want %s as answer %d", said, want, i+1)
		}
	}

	// Nodes distrust a new Redis server for the time of a lease, for which the test would
	// have to wait.
	shared := []string{"SANDGATE_CLUSTER_REDIS=redis://" + redis + "/0", "SANDGATE_CLUSTER_LEASE=" +
		clusterLease.String()}
	startNode := func(name string) (*pod, string) {
		listen := freeAddress(t)
		_, port, _ := net.SplitHostPort(listen)
		node := readManifest[manifest](t, "cluster/node.yaml")
		to, from := &node.Spec.Template.Spec, readManifest[manifest](t,
			"components/folder/node.yaml").Spec.Template.Spec
		to.Containers[0].Env = append(to.Containers[0].Env, from.Containers[0].Env...)
		to.Containers[0].Mounts = append(to.Containers[0].Mounts, from.Containers[0].Mounts...)
		to.Volumes = append(to.Volumes, from.Volumes...)
		for i, e := range to.Containers[0].Env { // the address that the node registers for gateways
			to.Containers[0].Env[i].Value = strings.Replace(e.Value, "9443", port, 1)
		}
		return k.start(name, node, map[string]string{
			"spec.nodeName": name + ".example",
			"status.podIP":  "127.0.0.1",
		},
			append(shared, "SANDGATE_CLUSTER_LISTEN="+listen, "SANDGATE_POOL_SIZE=1",
				"SANDGATE_POOL_SPARE=0",
				// Cgroups have the node's name, and here all nodes share one machine.
				"SANDGATE_RUN_DIR=/run/sandgate/"+filepath.Base(k.dir)+name)...), listen
	}
	n, listen := startNode("machine-1")
	edge := readManifest[manifest](t, "cluster/gateway.yaml")
	// A secret of a sign-in provider, like any secret that is added to those of the gateways.
	k.secrets["sandgate-gateway"]["oidc"] = []byte("hush")
	signIn := []string{
		"SANDGATE_OIDC_ISSUER=https://id.example.org", "SANDGATE_OIDC_CLIENT_ID=sandgate",
		"SANDGATE_OIDC_PUBLIC_URL=https://code.example.org",
		"SANDGATE_OIDC_ROLE=driver", "SANDGATE_OIDC_CLIENT_SECRET_FILE=/run/secrets/cluster/oidc",
	}
	var gateways []*pod
	var servers []*Server
	for i := range 2 {
		address := freeAddress(t)
		gateways = append(gateways, k.start(fmt.Sprint("gateway-", i), edge, nil,
			append(slices.Concat(shared, signIn), "SANDGATE_LISTEN="+address)...))
		servers = append(servers, &Server{
			URL:   "http://" + address,
			Token: strings.TrimSpace(string(k.secrets["sandgate-gateway"]["token"])),
		})
	}
	n.started(t, "")
	for i, g := range gateways {
		g.started(t, servers[i].URL)
	}
	// The node's port rejects clients without a certificate, and gateways with a certificate
	// from another authority.
	forged := filepath.Join(k.dir, "forged")
	if out, err := Sandgate("cluster", "join", "--role", "node", "--out", forged,
		filepath.Join(k.dir, "cluster", "nodes"), "gateway"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(forged, "node.crt"),
		filepath.Join(forged, "node.key"))
	check(t, err)
	for what, certificates := range map[string][]tls.Certificate{"nobody": nil, "a node": {pair}} {
		conn, err := tls.Dial("tcp", listen,
			&tls.Config{InsecureSkipVerify: true, Certificates: certificates})
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil ||
			errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the node accepts %s", what)
		}
		_ = conn.Close()
	}
	if _, err := os.Stat(filepath.Join(forged, "gateway.crt")); err == nil {
		t.Error("the authority of the machines has issued a gateway's certificate")
	}
	one := open(t, servers[0])
	one.run("ok", "x = 41")
	if got := one.on(servers[1]).run("ok", "x + 1").result(t); got != "42" {
		t.Errorf("through the other gateway: %s", got)
	}
	// The pod of the session's node is replaced. Here the session moves to another machine.
	other, _ := startNode("machine-2")
	other.started(t, "")
	n.end(t, "the first node")
	if got := one.run("ok", "x + 2").result(t); got != "43" {
		t.Errorf("on the other node: %s", got)
	}
	// The gateway has no file of root, and can write only below /tmp.
	status := string(mustRead(t, fmt.Sprintf("/proc/%d/status", gateways[0].cmd.Process.Pid)))
	contains(t, status, "Uid:\t998\t998\t998\t998", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1")
	for i, g := range gateways {
		g.end(t, fmt.Sprint("gateway ", i))
	}
	other.end(t, "the second node")
	isOnDisk := func() bool {
		saved, _ := filepath.Glob(filepath.Join(k.dir, "machine-2", "data", "node", "sessions",
			one.id, "session.json"))
		return len(saved) == 1
	}
	if !isOnDisk() {
		t.Error("the last node did not keep its session on the machine's disk")
	}
	// The hook of the component node-autoscaling moves the session also if no other node takes it.
	last, _ := startNode("machine-2")
	last.started(t, "")
	last.main.Lifecycle = readManifest[manifest](t,
		"components/node-autoscaling/statefulset.yaml").Spec.Template.Spec.Containers[0].Lifecycle
	last.end(t, "the node with a hook")
	if _, err := os.Stat(filepath.Join(k.dir, "claims", "sandgate-blobs", "sessions", one.id,
		"about")); err != nil || isOnDisk() {
		t.Errorf("%v, or the session is on the disk of a machine that is removed", err)
	}
	if _, err := Sandgate("node", "check", "--run-dir", "/run/no-sandgate"); err == nil {
		t.Error("a node that has ended answers")
	}
}
