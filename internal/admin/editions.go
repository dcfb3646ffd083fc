package admin

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// editionsName is the name of the findings about editions.
const editionsName = "editions"

// editionCheck checks the runtimes and images that this machine's node keeps.
type editionCheck struct {
	cfg *config.Config
	// kept are those on the disk.
	kept []edition.Inspected
	// list is that of the server; unknown without one that answers.
	list    nodes.NodeList
	unknown bool
	// free is the free space of the disk of data_dir in bytes.
	free int64
}

// editions checks the editions of this machine's node. The server says what needs them.
func (d *Doctor) editions(ctx context.Context) []gvisor.Finding {
	cfg := d.Config
	if cfg.Upgrade.Window == 0 {
		return []gvisor.Finding{finding(editionsName, gvisor.OK, "",
			"no earlier runtime and image is kept, because upgrade.window is 0")}
	}
	c := editionCheck{cfg: cfg}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := d.Connect()
	if err == nil {
		c.list, err = client.Nodes(ctx)
	}
	c.unknown = err != nil
	if os.Geteuid() != 0 {
		return append(c.findings(), finding(editionsName, Skipped, "sudo sandgate doctor",
			"only root can read the files of runtimes and images"))
	}
	var st unix.Statfs_t
	if c.kept, err = edition.Inspect(c.dir()); err == nil {
		err = unix.Statfs(cfg.DataDir, &st)
	}
	if err != nil {
		return []gvisor.Finding{finding(editionsName, gvisor.Warn, "check the disk; the next start of "+
			"the server writes the record again", "%s: %s", c.dir(), console.ErrorText(err))}
	}
	c.free = int64(st.Bavail) * st.Bsize
	return append(c.findings(), c.room()...)
}

func (c editionCheck) dir() string { return filepath.Join(c.cfg.DataDir, "editions") }

// findings describes the editions of this machine, and those that sessions in the blob store need.
func (c editionCheck) findings() (all []gvisor.Finding) {
	own := c.own()
	for _, k := range c.kept {
		if !slices.ContainsFunc(own, func(e nodes.Edition) bool { return e.ID == k.String() }) {
			own = append(own, nodes.Edition{ID: k.String(), Current: k.Current})
		}
	}
	for _, e := range own {
		switch i := slices.IndexFunc(c.kept, func(k edition.Inspected) bool {
			return k.String() == e.ID
		}); {
		case i >= 0 && c.kept[i].Err != nil:
			all = append(all, c.damaged(e, c.kept[i].Err))
		case e.Missing:
			all = append(all, c.missing(e))
		case !e.Current:
			all = append(all, c.earlier(e)...)
		}
	}
	all = append(all, c.parked()...)
	switch {
	case c.unknown && len(own) > 1:
		all = append(all, finding(editionsName, Skipped, "start the server",
			"only the server knows what needs the %d earlier ones", len(own)-1))
	case len(all) == 0 && !c.unknown:
		all = append(all, finding(editionsName, gvisor.OK, "",
			"nothing needs an earlier runtime or image"))
	}
	return all
}

// own returns the editions of this machine's node.
func (c editionCheck) own() []nodes.Edition {
	name := c.cfg.Cluster.Node
	if name == "" {
		name, _ = os.Hostname() // without a name it is another node
	}
	for _, n := range c.list.Nodes {
		if n.Name == name || len(c.list.Nodes) == 1 {
			return slices.Clone(n.Editions)
		}
	}
	return nil
}

// isShared reports whether the node keeps editions in a blob store.
func (c editionCheck) isShared() bool {
	return c.cfg.Cluster.Redis != "" && c.cfg.Cluster.Blobs != ""
}

// users describes what needs an edition, and how many sessions of the blob store are among it.
func (c editionCheck) users(e nodes.Edition) (text string, n int) {
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{e.Sessions, "running sessions"},
		{e.Hibernated, "hibernated sessions"},
		{e.Copies, "copies of durable sessions"},
		{e.Snapshots, "snapshots"},
		{c.list.Parked[e.ID], "sessions in the blob store"},
	} {
		if n += one.n; one.n > 0 {
			parts = append(parts, fmt.Sprint(one.n, " ", one.what))
		}
	}
	return strings.Join(parts, ", "), n
}

// shortID abbreviates an edition as sandgate cluster upgrade status does.
func shortID(of string) string {
	const digits = 8
	id, _ := edition.Parse(of)
	return fmt.Sprintf("%.*s-%.*s", digits, id.Runtime, digits, id.Image)
}

// damaged describes an edition whose files cannot be used.
func (c editionCheck) damaged(e nodes.Edition, err error) gvisor.Finding {
	id, _ := edition.Parse(e.ID)
	if e.Current {
		return finding(editionsName, gvisor.Warn, "make room in "+c.cfg.DataDir+", or install the "+
			"runtime and the image on its file system, and start the server again",
			"the current runtime and image, %s, are not kept for the time after an upgrade: %s",
			shortID(e.ID), console.ErrorText(err))
	}
	repair := fmt.Sprintf("copy runtimes/%s and images/%s of another node's %s, or of a backup, to this "+
		"one, and start the server again", id.Runtime, id.Image, c.dir())
	users, n := c.users(e)
	switch {
	case n > 0:
		return finding(editionsName, gvisor.Fail, repair+"; otherwise they are lost when the window ends",
			"%s cannot be used (%s), and is needed by %s", shortID(e.ID), console.ErrorText(err), users)
	case c.unknown:
		return finding(editionsName, gvisor.Warn, repair,
			"%s cannot be used (%s), which sessions may need", shortID(e.ID), console.ErrorText(err))
	}
	return finding(editionsName, gvisor.OK, "", "%s cannot be used (%s), and nothing needs it",
		shortID(e.ID), console.ErrorText(err))
}

// missing describes an edition that the node lacks, and that something on it needs.
func (c editionCheck) missing(e nodes.Edition) gvisor.Finding {
	users, _ := c.users(e)
	if slices.Contains(c.list.Stored, e.ID) {
		return finding(editionsName, gvisor.OK, "",
			"%s is needed by %s; the node fetches it from the blob store then", shortID(e.ID), users)
	}
	repair := "install its release, start the server, and install the current one again"
	if c.isShared() {
		repair = "start a machine that has it, which puts it into the blob store, or " + repair
	}
	return finding(editionsName, gvisor.Fail, repair,
		"%s is not on this machine, and is needed by %s", shortID(e.ID), users)
}

// earlier describes an edition that the node keeps.
func (c editionCheck) earlier(e nodes.Edition) (all []gvisor.Finding) {
	end := "their window ends"
	if e.EndsMS > 0 {
		end = time.UnixMilli(e.EndsMS).UTC().Format(time.DateTime) + " UTC"
	}
	users, n := c.users(e)
	switch {
	case n > 0:
		all = append(all, finding(editionsName, gvisor.OK, "",
			"%s is kept for %s until %s; then they are carried over", shortID(e.ID), users, end))
	case !c.unknown:
		all = append(all, finding(editionsName, gvisor.OK, "", "%s is kept until %s; nothing here needs it",
			shortID(e.ID), end))
	}
	if n == 0 || !c.isShared() || c.cfg.Upgrade.Share == 0 || slices.Contains(c.list.Stored, e.ID) {
		return all
	}
	repair := "nodes put it there at their start and every ten minutes; if it stays away, see " +
		"\"not put into the blob store\" in the log"
	if e.Bytes > int64(c.cfg.Upgrade.Share) {
		repair = fmt.Sprintf("set upgrade.share to more than %d MiB, and start the server again",
			e.Bytes>>20)
	}
	return append(all, finding(editionsName, gvisor.Warn, repair,
		"%s is not in the blob store: if this machine fails, no new one can continue %s",
		shortID(e.ID), users))
}

// parked describes the sessions in the blob store whose edition neither a node nor the store has.
func (c editionCheck) parked() (all []gvisor.Finding) {
	has := map[string]bool{}
	for _, id := range c.list.Stored {
		has[id] = true
	}
	for _, n := range c.list.Nodes {
		for _, e := range n.Editions {
			has[e.ID] = has[e.ID] || !e.Missing
		}
	}
	for id, n := range c.list.Parked {
		if n > 0 && !has[id] {
			all = append(all, finding(editionsName, gvisor.Fail,
				"start a machine that has it, or install its release on a node, start that, and install "+
					"the current one again; otherwise they are lost when the window ends",
				"%s is needed by %d sessions in the blob store, and neither a node nor the store has it",
				shortID(id), n))
		}
	}
	slices.SortFunc(all, func(a, b gvisor.Finding) int { return cmp.Compare(a.What, b.What) })
	return all
}

// room describes whether the disk can take another edition: a file may take a quarter of the free space
// at most.
func (c editionCheck) room() []gvisor.Finding {
	image, err := os.Stat(c.cfg.ImagePath())
	if err != nil {
		return nil // the check of the image reports it
	}
	linked := false
	for _, k := range c.kept {
		if kept, err := os.Stat(k.Image); err == nil {
			linked = linked || os.SameFile(kept, image)
		}
	}
	needs, repair := "the image of the next upgrade", "or install images on the file system of data_dir, "+
		"where they are linked"
	switch {
	case linked && !c.isShared():
		return nil
	case linked:
		needs, repair = "an image from the blob store", "or set upgrade.window to 0"
	}
	if image.Size() <= c.free/edition.CopyShare {
		return nil
	}
	return []gvisor.Finding{finding(editionsName, gvisor.Warn,
		fmt.Sprintf("make %d MiB free there, %s", image.Size()*edition.CopyShare>>20, repair),
		"%s does not fit: it takes %d MiB, %d MiB are free in %s, and it may take a quarter of them", needs,
		image.Size()>>20, c.free>>20, c.cfg.DataDir)}
}
