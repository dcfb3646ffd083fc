package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/protocol"
)

// inRecords reports whether the journal of a node in the bucket has a text.
func inRecords(t *testing.T, s *blobtest.Server, node, journal, text string) (has bool) {
	t.Helper()
	check(t, filepath.WalkDir(s.Files, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() ||
			!strings.Contains(path, "/records/"+node+".") || !strings.Contains(path, "/"+journal+"/") {
			return nil
		}
		b, err := os.ReadFile(path)
		has = has || err == nil && strings.Contains(string(b), text)
		return nil
	}))
	return has
}

// TestClusterRecords runs cells on both nodes of a cluster and kills one of the nodes. Reports of the
// other node have the use and the audit log of both, each record once, and name what may be missing.
// While the store is away they are unavailable. When the node is back, and after an orderly end,
// nothing is missing.
func TestClusterRecords(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	c, bucket := newStoreCluster(t)
	gone, stays := c.Servers[0], c.Servers[1]
	labels := map[string]string{"team": "records"}
	first := c.openOn(t, stays, 0, protocol.SessionCreate{Labels: labels})
	second := c.openOn(t, stays, 1, protocol.SessionCreate{Labels: labels})
	for _, s := range []*session{first, second, first} {
		s.run("ok", "1")
		s.run("ok", "2")
	}
	ctx := deadline(t)
	for _, s := range []*session{first, second} {
		check(t, s.client.DeleteSession(s.ctx, s.id))
	}
	usage := func() (cells int64, r protocol.UsageReport, code int) {
		t.Helper()
		code, err := stays.Get(ctx, "/v1/usage?by=session&label=team:records", &r)
		check(t, err)
		for _, s := range r.Sums {
			if s.Key == first.id || s.Key == second.id {
				cells += s.Cells
			}
		}
		return cells, r, code
	}
	entries := func() (n int, p protocol.AuditPage) {
		t.Helper()
		_, err := stays.Get(ctx, "/v1/audit?event=execute&session="+first.id, &p)
		check(t, err)
		return len(p.Entries), p
	}
	expect := func(what string, missing int) {
		t.Helper()
		eventually(t, what, func() bool {
			cells, u, code := usage()
			n, a := entries()
			if cells > 6 || n > 4 {
				t.Fatalf("%s: %d cells and %d entries, more than there are", what, cells, n)
			}
			return code == http.StatusOK && cells == 6 && n == 4 && len(u.Missing) == missing &&
				len(a.Missing) == missing && (missing == 0 || u.Missing[0].Node == "n0" &&
				u.Missing[0].FromMS > 0)
		})
	}
	expect("the records of both nodes", 0)
	eventually(t, "the records of the node in the store", func() bool {
		return inRecords(t, bucket, "n0", "usage", first.id) &&
			inRecords(t, bucket, "n0", "audit", `"event":"session.delete"`)
	})

	syscall.Kill(gone.PID(), syscall.SIGSTOP) // so that it does not start the node again
	gone.Signal(syscall.SIGKILL)
	gone.Halt(syscall.SIGKILL)
	expect("the records of a killed node", 1)
	out, err := command(ctx, t, stays, "usage", "--by", "session")
	check(t, err)
	contains(t, out, first.id, "warning: records of the node n0 after ")

	bucket.Kill()
	eventually(t, "no report without the store", func() bool {
		_, _, code := usage()
		return code == http.StatusServiceUnavailable
	})
	bucket.Run(t)

	check(t, gone.Boot(ctx))
	expect("the records when the node is back", 0)
	check(t, gone.Halt(syscall.SIGTERM))
	expect("the records after an orderly end", 0)
}
