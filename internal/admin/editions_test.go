package admin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// editionsOf returns a check of the node n1 with two editions: new-image is current, and old-image is
// needed by sessions.
func editionsOf(change func(c *editionCheck, old *nodes.Edition)) editionCheck {
	cfg := &config.Config{DataDir: "/data"}
	cfg.Cluster.Node, cfg.Cluster.Redis, cfg.Cluster.Blobs = "n1", "redis://r", "/blobs"
	cfg.Upgrade.Window, cfg.Upgrade.Share = config.Duration(time.Hour), 4<<30
	old := nodes.Edition{
		ID: "0123456789-abcdefghij", EndsMS: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli(),
		EditionUse: nodes.EditionUse{Sessions: 1, Hibernated: 2, Copies: 3, Snapshots: 4},
		Bytes:      2 << 30,
	}
	c := editionCheck{cfg: cfg, list: nodes.NodeList{Stored: []string{old.ID}}}
	for _, id := range []edition.ID{{Runtime: "new", Image: "image"}, {
		Runtime: "0123456789", Image: "abcdefghij",
	}} {
		c.kept = append(c.kept, edition.Inspected{
			Files: edition.Files{ID: id}, Current: id.Runtime == "new",
		})
	}
	change(&c, &old)
	c.list.Nodes = append(c.list.Nodes, nodes.NodeInfo{Name: "n1", Editions: []nodes.Edition{
		{ID: "new-image", Current: true}, old,
	}}, nodes.NodeInfo{Name: "n2", Editions: []nodes.Edition{{ID: "new-image", Current: true}}})
	return c
}

// editionProblem changes a check, and has the status and a part of each finding or its repair.
type editionProblem struct {
	change func(c *editionCheck, old *nodes.Edition)
	want   []string
}

const editionUses = "1 running sessions, 2 hibernated sessions, " +
	"3 copies of durable sessions, 4 snapshots"

// editionProblems returns the problems with an edition, and states without a problem.
func editionProblems() map[string]editionProblem {
	broken := errors.New("its files were changed on the disk")
	return map[string]editionProblem{
		"all is right": {
			func(*editionCheck, *nodes.Edition) {},
			[]string{"ok 01234567-abcdefgh is kept for " + editionUses + " until 2027-01-02 03:04:05 UTC"},
		},
		"nothing needs it": {
			func(_ *editionCheck, old *nodes.Edition) { old.EditionUse = nodes.EditionUse{} },
			[]string{"ok 01234567-abcdefgh is kept until 2027-01-02 03:04:05 UTC; nothing here needs it"},
		},
		"its files were changed": {
			func(c *editionCheck, _ *nodes.Edition) { c.kept[1].Err = broken },
			[]string{"fail copy runtimes/0123456789 and images/abcdefghij of another node's /data/editions"},
		},
		"they were changed, and nothing needs it": {
			func(c *editionCheck, old *nodes.Edition) {
				c.kept[1].Err, old.EditionUse = broken, nodes.EditionUse{}
			},
			[]string{"ok 01234567-abcdefgh cannot be used (its files were changed on the disk), and nothing"},
		},
		"the current one is not kept": {
			func(c *editionCheck, _ *nodes.Edition) { c.kept[0].Err = os.ErrNotExist },
			[]string{"warn make room in /data", "ok 01234567-abcdefgh is kept"},
		},
		"the node lacks it": {
			func(c *editionCheck, old *nodes.Edition) {
				c.kept, old.Missing, c.list.Stored = c.kept[:1], true, nil
			},
			[]string{"fail start a machine that has it, which puts it into the blob store, or install"},
		},
		"a single node lacks it": {
			func(c *editionCheck, old *nodes.Edition) {
				c.kept, old.Missing, c.list.Stored = c.kept[:1], true, nil
				c.cfg.Cluster.Redis = ""
			},
			[]string{"fail install its release, start the server, and install the current one again"},
		},
		"the node lacks it, and the store has it": {
			func(c *editionCheck, old *nodes.Edition) { c.kept, old.Missing = c.kept[:1], true },
			[]string{"ok the node fetches it from the blob store"},
		},
		"it is not in the store": {
			func(c *editionCheck, _ *nodes.Edition) { c.list.Stored = nil },
			[]string{"ok 01234567-abcdefgh is kept", "warn nodes put it there at their start"},
		},
		"it does not fit the store": {
			func(c *editionCheck, old *nodes.Edition) { c.list.Stored, old.Bytes = nil, 5<<30 },
			[]string{"ok 01234567-abcdefgh is kept", "warn set upgrade.share to more than 5120 MiB"},
		},
		"images are not stored": {
			func(c *editionCheck, _ *nodes.Edition) { c.list.Stored, c.cfg.Upgrade.Share = nil, 0 },
			[]string{"ok 01234567-abcdefgh is kept"},
		},
		"parked sessions": {
			func(c *editionCheck, _ *nodes.Edition) {
				c.list.Parked = map[string]int{
					"0123456789-abcdefghij": 5, "new-image": 6, "gone-1": 7, "gone-2": 8, "gone-3": 0,
				}
			},
			[]string{
				"ok 5 sessions in the blob store until", "fail gone-1 is needed by 7 sessions in the blob",
				"fail gone-2 is needed by 8 sessions",
			},
		},
		"the server does not run": {
			func(c *editionCheck, _ *nodes.Edition) { c.cfg.Cluster.Node, c.unknown = "none", true },
			[]string{"skip only the server knows what needs the 1 earlier ones"},
		},
		"it does not run, and files were changed": {
			func(c *editionCheck, _ *nodes.Edition) {
				c.cfg.Cluster.Node, c.unknown, c.kept[1].Err = "none", true, broken
			},
			[]string{"warn 01234567-abcdefgh cannot be used", "skip only the server knows"},
		},
	}
}

// TestEditionFindings: each problem with an earlier runtime and image is named, with its repair.
func TestEditionFindings(t *testing.T) {
	for name, test := range editionProblems() {
		got := editionsOf(test.change).findings()
		if len(got) != len(test.want) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i, f := range got {
			status, part, _ := strings.Cut(test.want[i], " ")
			if string(f.Status) != status || !strings.Contains(f.What+" "+f.Repair, part) ||
				(f.Repair == "") != (f.Status == gvisor.OK) {
				t.Errorf("%s: %+v, want %s", name, f, test.want[i])
			}
		}
	}
	none := editionsOf(func(c *editionCheck, old *nodes.Edition) { c.kept = c.kept[:1] })
	none.list.Nodes[0].Editions = none.list.Nodes[0].Editions[:1]
	if got := none.findings(); len(got) != 1 || got[0].Status != gvisor.OK {
		t.Errorf("without an earlier one: %+v", got)
	}
}

// TestRoomForEdition: a disk is reported that cannot hold the next image, unless images are linked,
// or that cannot hold one of the blob store.
func TestRoomForEdition(t *testing.T) {
	dir := t.TempDir()
	image, linked := filepath.Join(dir, "image"), filepath.Join(dir, "linked")
	if err := errors.Join(os.WriteFile(image, make([]byte, 1<<20), 0o600),
		os.Link(image, linked)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kept, redis string
		free        int64
		want        string
	}{
		{"", "", 3 << 20, "the image of the next upgrade does not fit: it takes 1 MiB, 3 MiB are free in"},
		{"", "", 4 << 20, ""},
		{linked, "", 3 << 20, ""},
		{linked, "redis://r", 3 << 20, "an image from the blob store does not fit"},
		{linked, "redis://r", 4 << 20, ""},
	} {
		cfg := &config.Config{DataDir: dir, Image: image}
		cfg.Cluster.Redis, cfg.Cluster.Blobs = test.redis, "/blobs"
		c := editionCheck{cfg: cfg, free: test.free, kept: []edition.Inspected{
			{Files: edition.Files{Image: test.kept}},
		}}
		got := c.room()
		if (test.want == "") != (len(got) == 0) ||
			len(got) == 1 && (got[0].Status != gvisor.Warn ||
				!strings.Contains(got[0].Repair, "make 4 MiB free there") ||
				!strings.HasPrefix(got[0].What, test.want)) {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

// TestEditionsWithoutServer: doctor checks the files of editions also when no server answers.
func TestEditionsWithoutServer(t *testing.T) {
	cfg := &config.Config{DataDir: t.TempDir()}
	d := &Doctor{Config: cfg, Connect: func() (*wire.Client, error) {
		return nil, errors.New("there is no profile")
	}}
	if got := d.editions(t.Context()); len(got) != 1 || got[0].Status != gvisor.OK ||
		!strings.Contains(got[0].What, "upgrade.window is 0") {
		t.Errorf("without a window: %+v", got)
	}
	cfg.Upgrade.Window = config.Duration(time.Hour)
	if os.Geteuid() != 0 {
		if got := d.editions(t.Context()); len(got) != 1 || got[0].Status != Skipped {
			t.Errorf("without root: %+v", got)
		}
		return
	}
	if got := d.editions(t.Context()); len(got) != 0 {
		t.Errorf("without editions: %+v", got)
	}
	dir := filepath.Join(cfg.DataDir, "editions")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "editions.json"),
		[]byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := d.editions(t.Context()); len(got) != 1 || got[0].Status != gvisor.Warn {
		t.Errorf("with a damaged record: %+v", got)
	}
}
