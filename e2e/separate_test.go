package e2e

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// separateCluster is a cluster whose nodes and gateways are separate processes. Each
// connection between them goes through a proxy that can fail.
type separateCluster struct {
	*cluster
	token    string
	nodes    []*part
	gateways []*part
	front    *faultProxy // the proxy before the gateways, the only address that users know
	disk     string      // the separate filesystem of a node, if there is one
	small    *part       // the node with the separate filesystem
	wrong    *part       // a node that no gateway accepts; nil before its first start
	net      *network    // the network of the parts, if they have one
	hub      *host       // the host of Redis in net
	mounts   []string    // folders in memory
}

// part is a node or a gateway.
type part struct {
	name, dir, role string
	user            *syscall.Credential
	host            *host       // nil for this machine
	store           string      // the address of Redis for this part
	redis           *faultProxy // to Redis; nil with a separate host
	in              *faultProxy // to this part; nil for a gateway, and with a separate host
	address         string
	program         string // another build of the program; empty for the one in bin
	within          string // a script that executes its arguments with fewer rights; empty for none
	cmd             *exec.Cmd
	done            chan error
}

// separateOptions describe a cluster.
type separateOptions struct {
	nodes, gateways int
	clock           bool     // Redis has a clock of its own
	disk            int      // MiB of the first node's data folder; 0 for a folder without a limit
	net             *network // nil for this machine, with proxies
	settings        string   // lines of YAML for the nodes; empty for a pool of all languages
	cluster         string   // further settings of the nodes in the cluster
	memory          bool     // the sessions and the blob store are in memory, for a busy disk
	release         *release // the version of the nodes; nil for the one in bin
}

// newSeparateCluster starts Redis, nodes and gateways.
func newSeparateCluster(t *testing.T, o separateOptions) *separateCluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	all, err := NewCluster(ctx)
	check(t, err)
	dir := all.Dir
	a := &separateCluster{
		cluster: &cluster{all, t}, token: "sgt_" + strings.Repeat("test", 13),
		net: o.net,
	}
	t.Cleanup(func() {
		a.stopAll()
		a.unmount()
		a.forget()
		check(t, a.Stop())
	})
	if o.clock {
		a.StopRedis()
		a.Clock = filepath.Join(dir, "clock")
		check(t, os.WriteFile(a.Clock, make([]byte, 4096), 0o644))
		if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", a.Clock+".so",
			"testdata/clock.c").CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
		a.startRedis()
	}
	if o.net != nil {
		a.moveRedis()
	}
	if o.memory {
		a.inMemory(dir + "/blobs")
	}
	for i := range max(o.nodes, o.gateways) {
		for role, letter := range map[string]string{"node": "n", "gateway": "g"} {
			_, err := Sandgate("cluster", "join", "--role", role, dir+"/ca", fmt.Sprint(letter, i))
			check(t, err)
		}
	}
	check(t, os.Chmod(dir+"/ca", 0o711)) // the folder of a real gateway is not below it
	nobody, err := user.Lookup("nobody")
	check(t, err)
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	for i := range o.nodes {
		p := a.part(fmt.Sprint("n", i), "node")
		reached := p.address
		if p.host == nil {
			p.in = newFaultProxy(t, p.address)
			reached = p.in.address()
		}
		if i == 0 && o.disk > 0 {
			a.small, a.disk = p, filepath.Join(p.dir, "data")
			check(t, os.Mkdir(a.disk, 0o711))
			check(t, syscall.Mount("tmpfs", a.disk, "tmpfs", 0,
				fmt.Sprintf("size=%dm,mode=0711", o.disk)))
		}
		if o.memory {
			a.inMemory(p.data())
		}
		p.write(t, cmp.Or(o.settings, "pool: {size: 1, spare: 0}\n"),
			fmt.Sprintf("node: %s, listen: %q, address: %q, blobs: %s/blobs, %s", p.name, p.address,
				reached, dir, o.cluster))
		if o.release != nil {
			p.install(t, *o.release)
		}
		a.nodes = append(a.nodes, p)
	}
	a.each(a.nodes, (*part).start)
	a.each(a.nodes, (*part).warm)
	var addresses []string
	for i := range o.gateways {
		p := a.part(fmt.Sprint("g", i), "gateway")
		p.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}
		p.write(
			t, fmt.Sprintf(
				"listen: %s\ninsecure_listen_without_tls: %t\ngateway: {self_check: 0}\ntoken_file: %s/token\n", p.address, p.host != nil, p.dir), "")
		check(t, os.WriteFile(p.dir+"/token", []byte(a.token+"\n"), 0o600))
		certificates := dir + "/ca/" + p.name
		for _, file := range []string{p.dir + "/token", certificates, certificates +
			"/gateway.key"} {
			check(t, os.Chown(file, uid, gid))
		}
		a.gateways = append(a.gateways, p)
		addresses = append(addresses, p.address)
	}
	a.each(a.gateways, (*part).start)
	a.each(a.gateways, (*part).answers)
	a.front = newFaultProxy(t, addresses...)
	if a.net != nil {
		a.front.from(a.net.host("users"))
	}
	return a
}

// each calls do for several parts at the same time.
func (a *separateCluster) each(all []*part, do func(*part) error) {
	a.t.Helper()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() { errs[i] = do(p) })
	}
	wg.Wait()
	check(a.t, errors.Join(errs...))
}

func (a *separateCluster) part(name, role string) *part {
	a.t.Helper()
	p := &part{name: name, role: role, dir: filepath.Join(a.Dir, name)}
	if a.net != nil {
		p.host = a.net.host(name)
		p.address, p.store = net.JoinHostPort(p.host.address, "8080"), a.Address
	} else {
		p.address, p.redis = freeAddress(a.t), newFaultProxy(a.t, a.Address)
		p.store = p.redis.address()
	}
	check(a.t, os.Mkdir(p.dir, 0o755))
	return p
}

// write writes the part's configuration.
func (p *part) write(t *testing.T, settings, cluster string) {
	t.Helper()
	if cluster != "" {
		cluster = ", " + cluster
	}
	text := fmt.Sprintf(
		"data_dir: %[1]s/data\nrun_dir: %[1]s/run\nlog: {level: debug}\n%[2]scluster: {redis: \"redis://%[3]s/0\", dir: %[4]s, lease: %[5]s%[6]s}\n",
		p.dir, settings, p.store, filepath.Join(filepath.Dir(p.dir), "ca", p.name), clusterLease,
		cluster)
	check(t, os.WriteFile(filepath.Join(p.dir, "config.yaml"), []byte(text), 0o644))
}

// install makes the part one of a version with its next start.
func (p *part) install(t *testing.T, r release) {
	t.Helper()
	configure(t, filepath.Join(p.dir, "config.yaml"), r, "")
	p.program = r.program
}

// data returns the folder of a node's sessions.
func (p *part) data() string { return filepath.Join(p.dir, "data", "node") }

// start starts the part. Its log and its output are in its folder.
func (p *part) start() error {
	bin, err := Bin("sandgate")
	if err != nil {
		return err
	}
	bin = cmp.Or(p.program, bin)
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	said, err := os.Create(filepath.Join(p.dir, "said"))
	if err != nil {
		return err
	}
	defer said.Close()
	args := []string{bin, p.role, "--config", filepath.Join(p.dir, "config.yaml")}
	if p.within != "" {
		args = append([]string{"unshare", "--mount", "sh", "-c", p.within, "sh"}, args...)
	}
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = said, log
	p.cmd.Env = append(os.Environ(), "HOME="+p.dir)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	if err := p.host.in(p.cmd.Start); err != nil {
		return err
	}
	p.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan error) { done <- cmd.Wait() }(p.cmd, p.done)
	return nil
}

// until waits for a condition of a part that has been started.
func (p *part) until(what string, is func() bool) error {
	for end := time.Now().Add(3 * time.Minute); !is(); {
		select {
		case err := <-p.done:
			p.done <- err
			log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			return fmt.Errorf("%s ended: %v\n%s", p.name, err, log)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: it did not happen: %s", p.name, what)
		}
	}
	return nil
}

// warm waits until a node serves and its pool is filled.
func (p *part) warm() error {
	return p.until("a warm sandbox", func() bool {
		said, _ := os.ReadFile(filepath.Join(p.dir, "said"))
		return strings.Contains(string(said), "\nwarm\n")
	})
}

// answers waits until a gateway answers.
func (p *part) answers() error {
	return p.until("an answer", func() bool {
		res, err := p.host.client().Get("http://" + p.address + "/livez")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

func (p *part) log() string {
	text, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	return string(text)
}

func (p *part) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// stop ends the part with a signal, and waits for its end.
func (p *part) stop(sig syscall.Signal) error {
	if p.cmd == nil || p.cmd.Process == nil {
		return nil
	}
	p.signal(sig)
	select {
	case err := <-p.done:
		p.done <- err
		if sig == syscall.SIGKILL {
			return nil
		}
		return err
	case <-time.After(3 * time.Minute):
		p.signal(syscall.SIGKILL)
		return fmt.Errorf("%s did not end within 3 min", p.name)
	}
}

func (a *separateCluster) stopAll() {
	for _, p := range append(append([]*part{}, a.gateways...), a.nodes...) {
		if p.redis != nil {
			p.redis.setMode(passing, 0)
		}
		if p.cmd == nil {
			continue
		}
		select {
		case err := <-p.done:
			p.done <- err
			continue
		default:
		}
		p.signal(syscall.SIGCONT)
		if err := p.stop(syscall.SIGTERM); err != nil {
			a.t.Errorf("%s: %v", p.name, err)
		}
	}
}

// jump moves Redis' clock by d.
func (a *separateCluster) jump(d time.Duration) {
	a.t.Helper()
	f, err := os.OpenFile(a.Clock, os.O_WRONLY, 0)
	check(a.t, err)
	defer f.Close()
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d/time.Second)), 0)
	check(a.t, err)
}

// server returns a gateway, or the proxy before all gateways, as a Server.
func (a *separateCluster) server(address string) *Server {
	return &Server{URL: "http://" + address, Token: a.token}
}

// history returns the history that the nodes have recorded.
func (a *separateCluster) history() *history {
	h := &history{nodes: map[string]string{}}
	for _, n := range a.nodes {
		h.nodes[n.name] = n.dir
	}
	return h
}

// owner returns the node that has the session, by the nodes' logs.
func (a *separateCluster) owner(id string) *part {
	var owner *part
	var most uint64
	for _, c := range a.history().claims() {
		if c.session != id || c.what != "owned" || c.token < most {
			continue
		}
		most = c.token
		for _, n := range a.nodes {
			if n.name == c.node {
				owner = n
			}
		}
	}
	return owner
}

// inMemory makes a folder one in memory until the test ends.
func (a *separateCluster) inMemory(dir string) {
	a.t.Helper()
	check(a.t, os.MkdirAll(dir, 0o711))
	check(a.t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3g,mode=0711"))
	a.mounts = append(a.mounts, dir)
}

// forget unmounts the folders in memory.
func (a *separateCluster) forget() {
	for _, dir := range a.mounts {
		check(a.t, syscall.Unmount(dir, 0))
	}
	a.mounts = nil
}

func (a *separateCluster) unmount() {
	if a.disk != "" {
		check(a.t, syscall.Unmount(a.disk, 0))
		a.disk = ""
	}
}

// clean deletes all sessions, ends all parts, and checks what they have left.
func (a *separateCluster) clean() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	s := a.server(a.front.address())
	cl, err := wire.New(s.URL, s.Token, wire.Options{})
	check(a.t, err)
	var all []protocol.Session
	eventually(a.t, "a list of all sessions", func() bool {
		all, err = cl.Sessions(ctx)
		return err == nil
	})
	for _, x := range all {
		eventually(a.t, "the end of "+x.ID,
			func() bool { err := cl.DeleteSession(ctx, x.ID); return err == nil || !again(err) })
	}
	a.stopAll()
	a.unmount()
	at, port, err := net.SplitHostPort(a.Address)
	check(a.t, err)
	var keys []byte
	check(a.t, a.hub.in(func() (err error) {
		keys, err = exec.Command("redis-cli", "-h", at, "-p", port, "--scan", "--pattern",
			"*session*").Output()
		return err
	}))
	for _, key := range strings.Fields(string(keys)) {
		a.t.Errorf("Redis still has %s", key)
	}
	// Earlier runtimes and images are swept after a day, and incomplete objects of nodes that were
	// killed within an hour.
	_ = filepath.Walk(a.Dir+"/blobs", func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() && info.Name() != "cluster" &&
			!strings.HasPrefix(info.Name(), ".partial-") &&
			!strings.Contains(path, "/records/") && !strings.Contains(path, "/kept/") {
			a.t.Errorf("the blob store still has %s", path)
		}
		return nil
	})
	a.forget()
	for _, n := range a.nodes {
		if left := leftovers(&Server{Dir: n.dir}); len(left) > 0 {
			a.t.Errorf("%s still has:\n%s", n.name, strings.Join(left, "\n"))
		}
	}
}
