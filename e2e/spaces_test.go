package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// network is a bridge with a separate network namespace for each part of a cluster.
// A connection that a test cuts there fails as with a broken cable. The machine's own
// network is not changed. The network ends with the test.
type network struct {
	t      *testing.T
	prefix string
	hosts  int
}

// newNetwork creates the bridge, in a namespace of its own.
func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, prefix: fmt.Sprintf("sg%d-", os.Getpid())}
	n.ip("netns", "add", n.prefix+"hub")
	t.Cleanup(func() {
		for _, name := range n.all() {
			n.ip("netns", "del", name)
		}
		if left := n.all(); len(left) > 0 {
			t.Errorf("namespaces remain: %v", left)
		}
	})
	n.ip("-n", n.prefix+"hub", "link", "add", "br0", "up", "type", "bridge")
	return n
}

// all returns the names of the namespaces that exist.
func (n *network) all() []string {
	all, _ := filepath.Glob("/run/netns/" + n.prefix + "*")
	for i := range all {
		all[i] = filepath.Base(all[i])
	}
	return all
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Errorf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		if args[0] == "netns" && args[1] == "add" {
			n.t.Fatal("this test needs root, CAP_SYS_ADMIN and iproute2")
		}
	}
}

// host has a network of its own on the bridge, like a separate machine.
type host struct {
	n       *network
	name    string // the name of the namespace
	cable   string // the name of its interface at the bridge
	address string
}

func (n *network) host(name string) *host {
	n.t.Helper()
	n.hosts++
	h := &host{
		n: n, name: n.prefix + name, cable: fmt.Sprint("c", n.hosts),
		address: fmt.Sprint("10.77.0.", n.hosts),
	}
	n.ip("netns", "add", h.name)
	n.ip("-n", n.prefix+"hub", "link", "add", h.cable, "type", "veth", "peer", "name", "eth0",
		"netns", h.name)
	n.ip("-n", n.prefix+"hub", "link", "set", h.cable, "master", "br0", "up")
	n.ip("-n", h.name, "addr", "add", h.address+"/24", "dev", "eth0")
	n.ip("-n", h.name, "link", "set", "lo", "up")
	n.ip("-n", h.name, "link", "set", "eth0", "up")
	return h
}

// cut disconnects the host's cable at the bridge, or connects it again. The host
// itself notices nothing, and packets are lost.
func (h *host) cut(is bool) {
	h.n.t.Helper()
	if is {
		h.n.ip("-n", h.n.prefix+"hub", "link", "set", h.cable, "nomaster")
	} else {
		h.n.ip("-n", h.n.prefix+"hub", "link", "set", h.cable, "master", "br0")
	}
}

// in calls a function in the host's network. Connections and processes that it starts
// stay there. nil is this machine.
func (h *host) in(do func() error) error {
	if h == nil {
		return do()
	}
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	there, err := os.Open("/run/netns/" + h.name)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	defer func() {
		if unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
		}
	}()
	return do()
}

func (h *host) dial(network, address string) (c net.Conn, err error) {
	err = h.in(func() (err error) {
		c, err = net.DialTimeout(network, address, time.Second)
		return err
	})
	return c, err
}

// client returns an HTTP client that sends from the host.
func (h *host) client() *http.Client {
	if h == nil {
		return http.DefaultClient
	}
	return &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(_ context.Context,
			network, address string,
		) (net.Conn, error) {
			return h.dial(network, address)
		},
	}}
}

// TestPartition disconnects a node and Redis, each for longer than a lease, while users
// work. Packets are lost without an error. Afterwards the history and the users'
// acknowledged work are complete.
func TestPartition(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	a := newSeparateCluster(t, separateOptions{nodes: 2, gateways: 2, net: newNetwork(t)})
	h := a.history()
	c := a.crowd(t, h, 2)
	stop := c.start()
	c.rounds(1)
	again := a.claimedAgain(t)
	for _, x := range []struct {
		name string
		host *host
	}{{"a node", a.nodes[0].host}, {"Redis", a.hub}} {
		begin := time.Now()
		x.host.cut(true)
		if x.host != a.hub {
			for _, w := range a.usersOf(c, a.nodes[1]) {
				goal := w.done() + 1
				eventually(t, "a cell of the other node", func() bool { return w.done() >= goal })
			}
		}
		time.Sleep(max(0, clusterLease+outage-time.Since(begin))) // this time is tested
		x.host.cut(false)
		c.rounds(1)
		t.Logf("%s was disconnected, and all users continue after %s", x.name,
			time.Since(begin).Round(time.Millisecond))
	}
	again()
	stop()
	for _, w := range c.users {
		t.Logf("%s: %d cells, %d lines, the slowest cell %s", w.name, w.cells, w.keys,
			w.slowest.Round(time.Millisecond))
		if err := w.lostBy(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	h.mustHold(t)
	a.clean()
}

// moveRedis starts Redis on a separate host.
func (a *separateCluster) moveRedis() {
	a.t.Helper()
	a.StopRedis()
	a.hub = a.net.host("redis")
	a.Address = net.JoinHostPort(a.hub.address, "6379")
	check(a.t, a.hub.in(func() error {
		a.Redis = exec.Command("redis-server", "--port", "6379", "--bind", a.hub.address,
			"--protected-mode", "no", "--save", "", "--dir", a.Dir)
		return a.Redis.Start()
	}))
	eventually(a.t, "Redis", func() bool {
		conn, err := a.hub.dial("tcp", a.Address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}
