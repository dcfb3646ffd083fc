package durable

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Birth is the number of the record that a session has until its first copy. It has no memory and
// no logs: only the journal of its cells.
const Birth = 0

// Record writes the record of a session without a copy, and opens its journal. Like the journal it
// is not synced: the memory of the machine's kernel outlives this process. It does nothing for a
// session that is not durable.
func (c *Copies) Record(m *snapshot.Manifest) error {
	if !c.durable {
		return nil
	}
	dir := c.Folder(Birth)
	if err := writeRecord(dir, m); err != nil {
		return fault.Wrap(fault.Host, "session.preserve", err)
	}
	c.Resume(Birth, c.Saved())
	return nil
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
