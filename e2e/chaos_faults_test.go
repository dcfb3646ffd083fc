package e2e

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// usersOf returns the users whose sessions a node has.
func (a *separateCluster) usersOf(c *crowd, n *part) []*worker {
	var all []*worker
	for _, w := range c.users {
		if a.owner(w.id) == n {
			all = append(all, w)
		}
	}
	return all
}

// outage is the duration of a failure: longer than a request waits, shorter than the time
// after which a connection is given up.
const outage = 1500 * time.Millisecond

// cutOff disconnects a node from all gateways: completely, in one direction, by
// delay, and with an end of each connection. Its users wait. The other node's
// users do not.
func (a *separateCluster) cutOff(t *testing.T, c *crowd) {
	n := a.nodes[0]
	for _, how := range []int{dropping, noAnswers, refusing} {
		n.in.setMode(how, 0)
		time.Sleep(outage) // this time is tested; no event ends it
		n.in.setMode(passing, 0)
		c.rounds(1)
	}
	n.in.setMode(passing, 20*time.Millisecond)
	c.rounds(1)
	n.in.setMode(passing, 0)
}

// fencedOff disconnects a node from Redis for longer than a lease. The node
// acknowledges nothing until it is connected again, and the other node's users
// notice nothing.
func (a *separateCluster) fencedOff(t *testing.T, c *crowd) {
	n := a.nodes[0]
	w := a.usersOf(c, n)[0]
	n.redis.setMode(dropping, 0)
	eventually(t, "the fence", func() bool {
		cell, err := w.kern.Execute(c.ctx, "pass", wire.ExecuteOptions{})
		if err == nil {
			_, err = cell.Wait(c.ctx)
			check(t, err)
			return false
		}
		return fault.Is(err, fault.Unavailable)
	})
	for _, w := range a.usersOf(c, a.nodes[1]) {
		goal := w.done() + 1
		eventually(t, "a cell of the other node", func() bool { return w.done() >= goal })
	}
	n.redis.setMode(passing, 0)
}

// through returns a client of one gateway.
func (a *separateCluster) through(t *testing.T, gateway *part) *wire.Client {
	t.Helper()
	cl, err := wire.New(a.server(gateway.address).URL, a.token, wire.Options{})
	check(t, err)
	return cl
}

// blindGateway disconnects a gateway from Redis. It continues to serve the sessions
// that it knows, and reports that it cannot find others. The other gateway can.
func (a *separateCluster) blindGateway(t *testing.T, c *crowd) {
	blind, sees := a.gateways[0], a.gateways[1]
	for _, w := range c.users { // a request of each may reach the gateway for the first time
		check(t, insist(c.ctx, func() error {
			_, err := a.through(t, blind).Session(c.ctx, w.id)
			return err
		}))
	}
	blind.redis.setMode(dropping, 0)
	c.rounds(1)
	var made protocol.Session
	check(t, insist(c.ctx, func() (err error) {
		made, err = a.through(t, sees).CreateSession(c.ctx, protocol.SessionCreate{Language: "python"})
		return err
	}))
	c.h.ledger.made(made.ID)
	if _, err := a.through(t, blind).Session(c.ctx, made.ID); !fault.Is(err, fault.Unavailable) {
		t.Errorf("for a session that it cannot know the error is %v", err)
	}
	blind.redis.setMode(passing, 0)
	c.h.ledger.ending(made.ID)
	check(t, insist(c.ctx, func() error {
		return a.through(t, blind).DeleteSession(c.ctx, made.ID)
	}))
	c.h.ledger.ended(made.ID)
}

// slowRedis delays each message to and from Redis by half the time limit of a step.
func (a *separateCluster) slowRedis(_ *testing.T, c *crowd) {
	all := append(append([]*part{}, a.nodes...), a.gateways...)
	for _, p := range all {
		p.redis.setMode(passing, 100*time.Millisecond)
	}
	c.rounds(1)
	for _, p := range all {
		p.redis.setMode(passing, 0)
	}
}

// emptyRedis stops Redis and starts it without its data. Until their leases end, the nodes serve
// their sessions without it.
func (a *separateCluster) emptyRedis(t *testing.T, c *crowd) {
	again := a.claimedAgain(t)
	goals := map[*worker]int{}
	for _, w := range c.users {
		goals[w] = w.done() + 1
	}
	a.StopRedis()
	begin := time.Now()
	eventually(t, "a cell of each user, or the end of the leases", func() bool {
		for w, goal := range goals {
			if w.done() < goal {
				return time.Since(begin) > clusterLease
			}
		}
		return true
	})
	a.startRedis()
	again()
}

// claimedAgain waits until each node has claimed its sessions again.
func (a *separateCluster) claimedAgain(t *testing.T) (wait func()) {
	count := func(n *part) int {
		log, err := os.ReadFile(filepath.Join(n.dir, "log"))
		check(t, err)
		return strings.Count(string(log), "claiming all sessions again")
	}
	before := map[*part]int{}
	for _, n := range a.nodes {
		before[n] = count(n)
	}
	return func() {
		t.Helper()
		for _, n := range a.nodes {
			eventually(t, n.name+"'s claims", func() bool { return count(n) > before[n] })
		}
	}
}

// stoodStill stops a node for longer than its lease.
func (a *separateCluster) stoodStill(_ *testing.T, c *crowd) {
	n := a.nodes[1]
	n.signal(syscall.SIGSTOP)
	time.Sleep(clusterLease + outage) // this time is tested
	n.signal(syscall.SIGCONT)
}

// clockJumps moves Redis' clock an hour forward, and back: leases end too early
// and too late. Nodes use their own clocks.
func (a *separateCluster) clockJumps(t *testing.T, c *crowd) {
	again := a.claimedAgain(t)
	a.jump(time.Hour)
	again()
	c.rounds(1)
	a.jump(0)
	c.rounds(1)
}

// fullDisk fills the disk of a node. Its sessions continue. None can be hibernated
// or moved until there is room again, unless the node has a durable session.
func (a *separateCluster) fullDisk(t *testing.T, c *crowd) {
	n := a.small
	all := a.usersOf(c, n)
	if len(all) == 0 {
		t.Fatal("the node has no session")
	}
	// An earlier copy of a durable session is removed meanwhile, which makes room.
	full := !slices.ContainsFunc(c.keepers, func(k *keeper) bool { return a.owner(k.id) == n })
	f, err := os.Create(filepath.Join(a.disk, "ballast"))
	check(t, err)
	defer f.Close()
	var zero [1 << 16]byte
	for err == nil {
		_, err = f.Write(zero[:])
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_, err = all[0].cl.HibernateSession(c.ctx, all[0].id)
	if err == nil && full {
		t.Error("the node hibernated a session on a full disk")
	}
	c.rounds(1)
	said, err := Sandgate("node", "drain", "--config", filepath.Join(n.dir, "config.yaml"))
	if err == nil && full {
		t.Errorf("the node drained with a full disk: %s", said)
	}
	c.rounds(1)
	if still := a.usersOf(c, n); len(still) != len(all) && full {
		t.Errorf("of %d sessions %d stayed", len(all), len(still))
	}
	check(t, os.Remove(f.Name()))
	check(t, f.Close())
	// A stop does the same, and then the node accepts sessions again.
	check(t, n.stop(syscall.SIGTERM))
	check(t, n.start())
	check(t, n.warm())
	for _, w := range all {
		if a.owner(w.id) == n {
			t.Errorf("session %s did not move when there was room", w.id)
		}
	}
}

// killedGateway kills a gateway and starts it again.
func (a *separateCluster) killedGateway(t *testing.T, c *crowd) {
	a.restart(t, c, a.gateways[0], syscall.SIGKILL)
}

// restart ends a part with a signal, and starts it again after all users have worked.
func (a *separateCluster) restart(t *testing.T, c *crowd, p *part, sig syscall.Signal) {
	t.Helper()
	check(t, p.stop(sig))
	c.rounds(1)
	check(t, p.start())
	if p.role == "node" {
		check(t, p.warm())
	} else {
		check(t, p.answers())
	}
}

// killedNode kills a node. Its users learn that their sessions are lost. The other
// node's users do not.
func (a *separateCluster) killedNode(t *testing.T, c *crowd) {
	a.kill(t, c, a.nodes[1])()
}

// kill kills nodes, and returns a function that starts them again and waits until their users know
// that their sessions are lost.
func (a *separateCluster) kill(t *testing.T, c *crowd, nodes ...*part) (back func()) {
	t.Helper()
	// A node that tries to adopt a lost session claims it first, so this is found out before.
	var doomed []*worker
	for _, n := range nodes {
		all := a.usersOf(c, n)
		if len(all) == 0 {
			t.Fatalf("%s has no session", n.name)
		}
		doomed = append(doomed, all...)
	}
	a.each(nodes, func(n *part) error { return n.stop(syscall.SIGKILL) })
	for _, w := range doomed {
		c.h.ledger.doom(w.id, "killed")
	}
	return func() {
		t.Helper()
		a.each(nodes, (*part).start)
		a.each(nodes, (*part).warm)
		for _, w := range doomed {
			eventually(t, "the end of "+w.name+"'s session", func() bool {
				return w.lostBy() != nil || t.Failed() || c.t.Failed()
			})
			check(t, killed(c.ctx, w.cl, w.id))
			c.h.ledger.lost(w.id, "killed")
		}
	}
}

// redisCLI runs a command of Redis.
func (a *separateCluster) redisCLI(ctx context.Context, args ...string) string {
	a.t.Helper()
	at, port, err := net.SplitHostPort(a.Address)
	check(a.t, err)
	out, err := exec.CommandContext(ctx, "redis-cli",
		append([]string{"-h", at, "-p", port}, args...)...).Output()
	check(a.t, err)
	return strings.TrimSpace(string(out))
}

// lostRecord deletes the records of a user's session and of one that only one gateway knows. The
// other gateway finds it. The nodes write the records again within a lease.
func (a *separateCluster) lostRecord(t *testing.T, c *crowd) {
	var made protocol.Session
	check(t, insist(c.ctx, func() (err error) {
		made, err = a.through(t, a.gateways[0]).CreateSession(c.ctx,
			protocol.SessionCreate{Language: "python"})
		return err
	}))
	c.h.ledger.made(made.ID)
	a.restartedGateway(t, c) // it knows the session from an event
	var keys []string
	for _, id := range []string{made.ID, a.usersOf(c, a.nodes[0])[0].id} {
		key := a.redisCLI(c.ctx, "--scan", "--pattern", "*session*"+id)
		if key == "" || strings.Contains(key, "\n") {
			t.Fatalf("the records of session %s: %q", id, key)
		}
		a.redisCLI(c.ctx, "DEL", key)
		keys = append(keys, key)
	}
	other := a.through(t, a.gateways[1])
	check(t, insist(c.ctx, func() error { _, err := other.Session(c.ctx, made.ID); return err }))
	for _, key := range keys {
		eventually(t, "the record "+key, func() bool {
			return a.redisCLI(c.ctx, "EXISTS", key) == "1"
		})
	}
	c.h.ledger.ending(made.ID)
	check(t, insist(c.ctx, func() error { return other.DeleteSession(c.ctx, made.ID) }))
	c.h.ledger.ended(made.ID)
}

// olderRedis restarts a node, so that its sessions move, and then gives Redis the data of the time
// before. No session ends, and none returns to an earlier state.
func (a *separateCluster) olderRedis(t *testing.T, c *crowd) {
	a.redisCLI(c.ctx, "SAVE")
	a.restartedNode(t, c)
	again := a.claimedAgain(t)
	a.StopRedis()
	a.startRedis()
	again()
	check(t, os.Remove(filepath.Join(a.Dir, "dump.rdb")))
	c.rounds(1)
}

// restartedNode stops a node in an orderly way and starts it again. No session ends.
func (a *separateCluster) restartedNode(t *testing.T, c *crowd) {
	a.restart(t, c, a.nodes[0], syscall.SIGTERM)
}

// restartedGateway stops a gateway in an orderly way and starts it again.
func (a *separateCluster) restartedGateway(t *testing.T, c *crowd) {
	a.restart(t, c, a.gateways[1], syscall.SIGTERM)
}
