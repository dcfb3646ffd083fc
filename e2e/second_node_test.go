package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// TestSecondNodeEnds starts a node with the name of a node that runs: with data of its own, and with
// a copy of the original's data, such as a restored backup or a cloned machine. It ends with an
// error. The original serves, and its sessions have each acknowledged change.
func TestSecondNodeEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	c := newCluster(t, 1)
	first := c.Servers[0]
	durable := true
	s := c.openOn(t, first, 0, protocol.SessionCreate{Durable: &durable})
	asleep := c.openOn(t, first, 0, protocol.SessionCreate{})
	s.run("ok", "x = 1")
	asleep.run("ok", "x = 1")
	check(t, asleep.conn.Close())
	_, err := asleep.client.HibernateSession(ctx, asleep.id)
	check(t, err)
	cells := 0
	for n, copied := range []bool{false, true} {
		dir := filepath.Join(c.Dir, fmt.Sprint("second-", n))
		check(t, os.Mkdir(dir, 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "config.yaml"), fmt.Appendf(nil,
			"data_dir: %[1]s/data\nrun_dir: %[1]s/run\npool: {size: 1, spare: 0}\n"+
				"cluster: {redis: \"redis://%[2]s/0\", node: n0, listen: %[3]q, dir: %[4]s/ca/n0, "+
				"lease: %[5]s, blobs: %[4]s/blobs}\n",
			dir, c.Address, freeAddress(t), c.Dir, clusterLease), 0o644))
		if copied {
			check(t, exec.Command("cp", "-a", filepath.Join(first.Dir, "data"), dir).Run())
		}
		second := exec.CommandContext(ctx, must(Bin("sandgate"))(t), "node", "start", "--config",
			filepath.Join(dir, "config.yaml"))
		ended := make(chan error, 1)
		var out []byte
		go func() {
			var err error
			out, err = second.CombinedOutput()
			ended <- err
		}()
		for running := true; running; { // the original works meanwhile
			s.run("ok", "x += 1")
			cells++
			select {
			case err := <-ended:
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() <= 0 {
					t.Errorf("the second node: %v\n%s", err, out)
				}
				running = false
			case <-time.After(pause):
			}
		}
		contains(t, string(out), "another process is this node")
		if code, err := first.Get(ctx, "/v1/sessions", nil); err != nil || code != 200 {
			t.Errorf("the list of the first node: %d %v", code, err)
		}
	}
	if got := s.run("ok", "x").result(t); got != fmt.Sprint(cells+1) {
		t.Errorf("after %d cells x is %s", cells, got)
	}
	check(t, s.conn.Close())
	if got := asleep.on(first).run("ok", "x").result(t); got != "1" {
		t.Errorf("the hibernated session has %s", got)
	}
	c.history().mustHold(t)
}
