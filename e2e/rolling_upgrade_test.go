//go:build chaos

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// editionsOf returns the current editions of the nodes of a list by their names.
func editionsOf(list nodes.NodeList) map[string]string {
	all := map[string]string{}
	for _, n := range list.Nodes {
		for _, e := range n.Editions {
			if e.Current {
				all[n.Name] = e.ID
			}
		}
	}
	return all
}

// step is a node of an upgrade, with the time of its work on it.
type step struct {
	node         string
	began, ended time.Time
}

// TestRollingUpgrade restarts three nodes one after another, and then upgrades them one after
// another to another runtime and image, while users of all kinds work. No session and no list is
// lost, and the status shows the progress.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	now := currentRelease(t)
	before := earlierRelease(t, now)
	a := newSeparateCluster(t, separateOptions{
		nodes: 3, gateways: 2, release: &before, memory: true, cluster: "drain_limit: 5m",
		settings: "pool: {size: 1, spare: 0, languages: [python]}\nupgrade: {window: 1h}\n",
	})
	h := a.history()
	u := newTraffic(t, a, h)
	stop := u.start()
	u.rounds(1)
	u.slowest()
	again := func(n *part, what string) step {
		t.Helper()
		s := step{node: n.name, began: time.Now()}
		check(t, n.stop(syscall.SIGTERM))
		stopped := time.Now()
		if what == "upgraded" {
			n.install(t, now)
		}
		check(t, n.start())
		check(t, n.warm())
		s.ended = time.Now()
		u.rounds(1)
		t.Logf("%s was %s: it stopped after %s and was back after %s; the slowest cell took %s",
			n.name, what, stopped.Sub(s.began).Round(time.Millisecond),
			s.ended.Sub(s.began).Round(time.Millisecond), u.slowest().Round(time.Millisecond))
		return s
	}
	for _, n := range a.nodes {
		again(n, "restarted")
	}
	first := ""
	var steps []step
	for i, n := range a.nodes {
		if first == "" {
			list, err := u.cl.Nodes(u.ctx)
			check(t, err)
			first = editionsOf(list)[n.name]
		}
		steps = append(steps, again(n, "upgraded"))
		a.progress(t, u, first, i+1)
	}
	stop()
	for _, w := range u.users {
		if err := w.lostBy(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	u.report(t)
	h.mustHold(t)
	u.truthful(t, first, steps)
	u.counted(t, first)
	u.proveAsleep(t)
	a.clean()
}

// progress checks what the command status says after some nodes were upgraded.
func (a *separateCluster) progress(t *testing.T, u *traffic, first string, done int) {
	t.Helper()
	var behind []string
	for _, n := range a.nodes[done:] {
		behind = append(behind, n.name)
	}
	s := a.server(a.front.address())
	said, err := Sandgate("cluster", "upgrade", "status", "--url", s.URL, "--token-from",
		filepath.Join(a.gateways[0].dir, "token"))
	check(t, err)
	contains(t, said, "need an earlier edition")
	line := fmt.Sprintf("%d of 3 nodes have another edition than", len(behind))
	if got := strings.Contains(said, line); got != (done < 3) ||
		done < 3 && !strings.Contains(said, strings.Join(behind, ", ")) {
		t.Errorf("after %d nodes the status is:\n%s", done, said)
	}
}

// truthful checks the lists of nodes that were given during an upgrade: each has the earlier edition
// as the current one of a node until its upgrade, and the later one after it.
func (u *traffic) truthful(t *testing.T, first string, steps []step) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	silent := 0
	for _, p := range u.polls {
		if p.err != nil {
			t.Errorf("a list of nodes failed: %v", p.err)
			continue
		}
		has := editionsOf(p.list)
		for _, s := range steps {
			id, there := has[s.node]
			switch {
			case !there && (p.began.After(s.ended) || p.ended.Before(steps[0].began)):
				silent++
			case p.ended.Before(s.began) && there && id != first:
				t.Errorf("before the upgrade of %s its edition is %s", s.node, id)
			case p.began.After(s.ended) && id == first:
				t.Errorf("after the upgrade of %s its edition is %s", s.node, id)
			}
		}
	}
	t.Logf("%d lists of nodes, %d nodes in them did not answer", len(u.polls), silent)
}

// counted checks that the list of nodes counts the sessions that need the earlier edition.
func (u *traffic) counted(t *testing.T, first string) {
	t.Helper()
	var want, got int
	defer func() {
		if t.Failed() {
			t.Logf("%d sessions need %s, and the list of nodes counts %d", want, first, got)
		}
	}()
	eventually(t, "the count of the sessions of the earlier edition", func() bool {
		all, err := u.cl.Sessions(u.ctx)
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		list, err := u.cl.Nodes(u.ctx)
		check(t, err)
		want, got = 0, list.Parked[first]
		for _, s := range all {
			if s.Edition == first {
				want++
			}
		}
		for _, n := range list.Nodes {
			for _, e := range n.Editions {
				if e.ID == first {
					got += e.Sessions + e.Hibernated
				}
			}
		}
		return want > 0 && got == want
	})
}
