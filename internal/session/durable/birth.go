package durable

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Birth is the number of the record that a session has until its first copy. It has no memory and
// no logs: only the journal of its cells, if the session is durable, and of changes.
const Birth = 0

// Record writes the record of a session without a copy, and opens its journal. Like the journal it
// is not synced: the memory of the machine's kernel outlives this process.
func (c *Copies) Record(m *snapshot.Manifest) error {
	dir := c.Folder(Birth)
	if err := writeRecord(dir, m); err != nil {
		return fault.Wrap(fault.Host, "session.preserve", err)
	}
	c.Resume(Birth, time.Time{})
	return nil
}

// Resumed replaces the copy of a session that is not durable with its record: the copy shows the
// session as it was suspended, and the session runs on from now.
func (c *Copies) Resumed(record func() *snapshot.Manifest) error {
	c.mu.Lock()
	known := c.newest == Birth && len(c.journals) > 0
	c.mu.Unlock()
	if c.durable || known {
		return nil
	}
	c.Close(false)
	if err := c.Record(record()); err != nil {
		return errors.Join(err, c.store.Remove(c.id))
	}
	return c.store.removeOthers(c.id, filepath.Base(c.Folder(Birth)))
}

// Loss says why a session of which only the record is there is lost.
func (r *Recovery) Loss() string {
	if r.Record.Durable {
		return "the server was killed before the session was copied for the first time"
	}
	return "the server ended before the session was saved, and the session is not durable"
}

func writeRecord(dir string, m *snapshot.Manifest) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"session.json": data, snapshot.JournalName: nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// addKernels adds the kernels that were opened after the copy and had cells, so that their cells are
// reported too.
func addKernels(v *snapshot.Record, cells map[string][]queue.SavedCell) {
	for id := range cells {
		n, err := strconv.Atoi(id[1:])
		known := slices.ContainsFunc(v.Channels,
			func(c snapshot.Channel) bool { return c.ID == id })
		if known || err != nil {
			continue
		}
		v.Channels = append(v.Channels,
			snapshot.Channel{ID: id, Kind: "kernel", Language: v.Language})
		v.Numbers = max(v.Numbers, n)
	}
	for i := range v.Channels {
		if c := &v.Channels[i]; c.Kind == "kernel" && c.Queue == nil {
			c.Queue = &queue.Saved{State: "dead"}
		}
	}
}
