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

// TestSecondNodeEnds starts a node with the name of a node that runs, and data of its own. It ends with
// an error, and the original serves.
func TestSecondNodeEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	c := newCluster(t, 1)
	first := c.Servers[0]
	dir := filepath.Join(c.Dir, "second")
	check(t, os.Mkdir(dir, 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "config.yaml"), fmt.Appendf(nil,
		"data_dir: %[1]s/data\nrun_dir: %[1]s/run\npool: {size: 1, spare: 0}\n"+
			"cluster: {redis: \"redis://%[2]s/0\", node: n0, listen: %[3]q, dir: %[4]s/ca/n0, "+
			"lease: %[5]s, blobs: %[4]s/blobs}\n",
		dir, c.Address, freeAddress(t), c.Dir, clusterLease), 0o644))
	second := exec.CommandContext(ctx, must(Bin("sandgate"))(t), "node", "start", "--config",
		filepath.Join(dir, "config.yaml"))
	out, err := second.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() <= 0 {
		t.Errorf("the second node: %v\n%s", err, out)
	}
	contains(t, string(out), "another process is this node")
	if code, err := first.Get(ctx, "/v1/sessions", nil); err != nil || code != 200 {
		t.Errorf("the list of the first node: %d %v", code, err)
	}
	c.openOn(t, first, 0, protocol.SessionCreate{}).run("ok", "print(1)")
}
