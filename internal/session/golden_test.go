package session

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/golden"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
)

// TestGoldenRecords compares all that a node stores of sessions, in its data
// folder, its journals and the blob store.
func TestGoldenRecords(t *testing.T) {
	golden.Records(t, "records.json", map[string]any{
		"sessions/ID/session.json: a hibernated session": saved{},
		"session.json of a copy":                         copied{},
		"journal line of a durable session":              journaled{},
		"sessions/ID/about in the blob store":            about{},
		"checkpoints/ID/NAME.about in the blob store":    checkpoint{},
		"snapshots/NAME.json: a warm kernel":             warmKernel{},
		"templates/NAME/source.json":                     source{},
		"volumes/ID/volume.json":                         volume{},
		"usage line":                                     UsageRecord{},
		"audit line":                                     protocol.AuditEntry{},
		"view in the blob store":                         protocol.Session{},
		"resize record":                                  resized{},
	}, pty.State{Size: pty.Size{Cols: 80, Rows: 24}}, pty.PasteFilter{}, protocol.Network{Allow: []string{"example.org"}})
}

// TestGoldenSnapshotName compares the names of templates' snapshots. A snapshot
// that has another name is not found any more and has to be made again.
func TestGoldenSnapshotName(t *testing.T) {
	var out strings.Builder
	l := kernel.Manifest{
		Name: "python", Display: "Python", Aliases: []string{"py"}, Extensions: []string{".py"}, Argv: []string{"/a"},
		Env: map[string]string{"A": "b"}, Program: []string{"python3", "{file}"}, Interrupt: "signal", Warm: "1", Prime: "2",
	}
	src := &source{Digest: "d", Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	for _, stamp := range []string{"", src.stamp()} {
		name, err := snapshotName("python", "key", l, stamp)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&out, name)
	}
	golden.Text(t, "snapshot-name.txt", out.String())
}

// TestGoldenBlobNames compares the names of objects in the blob store.
func TestGoldenBlobNames(t *testing.T) {
	golden.Text(t, "blob-names.txt", strings.Join([]string{
		stateName("s_x"), aboutName("s_x"), viewName("a tenant", "s_x"), checkpointBase("s_x", 258, 7), "",
	}, "\n"))
}

// TestGoldenMetrics compares the names, types and labels of the metrics, and the
// names of the counters in the node's status.
func TestGoldenMetrics(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Pools = map[string]int{"test": 0} })
	golden.Text(t, "metrics.txt", golden.Metrics(must[protocol.Metrics](r, protocol.OpMetrics, nil).Text))
	counters := must[protocol.NodeStatus](r, protocol.OpStatus, nil).Counters
	golden.Text(t, "counters.txt", strings.Join(slices.Sorted(maps.Keys(counters)), "\n")+"\n")
}
