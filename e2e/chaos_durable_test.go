package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// named waits until the lists of each gateway are available and name exactly these nodes as missing.
func (a *separateCluster) named(t *testing.T, ctx context.Context, nodes ...*part) {
	t.Helper()
	var want []string
	for _, n := range nodes {
		want = append(want, n.name)
	}
	slices.Sort(want)
	for _, g := range a.gateways {
		cl := a.through(t, g)
		eventually(t, fmt.Sprintf("a list of %s that names %v", g.name, want), func() bool {
			l, err := cl.SelectSessions(ctx, protocol.SessionQuery{})
			slices.Sort(l.Missing)
			return err == nil && slices.Equal(l.Missing, want)
		})
	}
}

// unreachable disconnects a node from all gateways for longer than a lease, which it renews. Lists are
// available again and name the node, until it is connected again.
func (a *separateCluster) unreachable(t *testing.T, c *crowd) {
	n := a.nodes[0]
	n.in.setMode(dropping, 0)
	a.named(t, c.ctx, n)
	n.in.setMode(passing, 0)
	a.named(t, c.ctx)
}

// noBlobs removes the blob store for some time. Sessions continue, durable ones too.
func (a *separateCluster) noBlobs(t *testing.T, c *crowd) {
	store := filepath.Join(a.Dir, "blobs")
	check(t, os.Rename(store, store+".away"))
	c.rounds(2)
	check(t, os.Rename(store+".away", store))
	a.named(t, c.ctx)
}

// wrongNode starts a node with the certificate of another one. It does not start.
func (a *separateCluster) wrongNode(t *testing.T, c *crowd) {
	if a.wrong == nil {
		a.wrong = a.part("wrong", "node")
		check(t, exec.Command("cp", "-r", a.Dir+"/ca/"+a.nodes[0].name, a.Dir+"/ca/wrong").Run())
		a.wrong.write(t, "pool: {size: 0}\n", fmt.Sprintf(
			"node: wrong, listen: %[1]q, address: %[1]q, blobs: %[2]s/blobs", a.wrong.address, a.Dir))
	}
	check(t, a.wrong.start())
	if err := <-a.wrong.done; err == nil || !strings.Contains(a.wrong.log(), "certificate") {
		t.Errorf("a node with the certificate of another one: %v\n%s", err, a.wrong.log())
	}
	c.rounds(1)
}

// takenOver disconnects a node from Redis until other nodes have its durable sessions. Their users,
// who stay attached, are answered by the new nodes while the old one is still fenced. When it is
// connected again, it gives the sessions up. Its other sessions continue.
func (a *separateCluster) takenOver(t *testing.T, c *crowd) {
	n := a.owner(c.keepers[0].id)
	moved := a.stored(t, c, n)
	n.redis.setMode(dropping, 0)
	for _, k := range moved {
		eventually(t, "another node for "+k.name, func() bool { return a.owner(k.id) != n })
	}
	c.kept(2)
	n.redis.setMode(passing, 0)
	for _, k := range moved {
		eventually(t, n.name+" gives up the session of "+k.name, func() bool {
			return !exists(n.data(), "sessions", k.id) && !exists(n.data(), "durable", k.id)
		})
	}
	c.kept(1)
}

// stored returns the users of the durable sessions of some nodes, when each has a copy in the blob
// store. Others cannot take a session over before that.
func (a *separateCluster) stored(t *testing.T, c *crowd, nodes ...*part) (all []*keeper) {
	t.Helper()
	for _, k := range c.keepers {
		n := a.owner(k.id)
		if !slices.Contains(nodes, n) {
			continue
		}
		all = append(all, k)
		eventually(t, "a copy of the session of "+k.name, func() bool {
			return strings.Contains(n.log(), `copy is in the blob store" part=node session=`+k.id)
		})
	}
	return all
}

// exists reports whether there is a file with the pattern.
func exists(pattern ...string) bool {
	found, _ := filepath.Glob(filepath.Join(pattern...))
	return len(found) > 0
}

// goneNode kills a node, which stays away until other nodes have its durable sessions. Lists name it.
func (a *separateCluster) goneNode(t *testing.T, c *crowd) { a.gone(t, c, a.nodes[1]) }

// goneNodes does this with all nodes but one.
func (a *separateCluster) goneNodes(t *testing.T, c *crowd) { a.gone(t, c, a.nodes[1:]...) }

func (a *separateCluster) gone(t *testing.T, c *crowd, nodes ...*part) {
	t.Helper()
	a.stored(t, c, nodes...)
	back := a.kill(t, c, nodes...)
	c.kept(2)
	a.named(t, c.ctx, nodes...)
	back()
	a.named(t, c.ctx)
}
