package snapshot

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
)

// JournalName is the name of the journal in the folder of a copy.
const JournalName = "journal"

// JournalLine is a line of a journal: a cell, or a change of the session.
type JournalLine struct {
	Channel string `json:"channel,omitempty"`
	Cell    uint32 `json:"cell,omitempty"`
	Key     string `json:"key,omitempty"`
	// Change is set in the line of a change.
	Change *Change `json:"change,omitempty"`
}

// Change has the properties whose changes after a copy are in its journal. The last line counts.
type Change struct {
	Suspended bool      `json:"suspended,omitempty"`
	Expires   time.Time `json:"expires"`
	Due       time.Time `json:"due,omitzero"`
	Policy    Policy    `json:"policy"`
	// Network is nil for a session that never had a network.
	Network *protocol.Network `json:"network,omitempty"`
}

// Change returns the properties that go to journals.
func (s Status) Change() Change {
	return Change{Suspended: s.Suspended, Expires: s.Expires, Due: s.Due, Policy: s.Policy}
}

// Apply makes the change in a status.
func (c Change) Apply(s *Status) {
	s.Suspended, s.Expires, s.Due, s.Policy = c.Suspended, c.Expires, c.Due, c.Policy
}

// Journal is what happened in a session after a copy.
type Journal struct {
	// Cells are the acknowledged cells of each channel.
	Cells map[string][]queue.SavedCell
	// Change is the last change of the session; nil for none.
	Change *Change
}

// ReadJournal reads a journal. A line that was cut belongs to a cell or a change that was not
// acknowledged.
func ReadJournal(name string) (j Journal, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return j, err
	}
	defer f.Close()
	j.Cells = map[string][]queue.SavedCell{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l JournalLine
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		if l.Change != nil {
			j.Change = l.Change
			continue
		}
		j.Cells[l.Channel] = append(j.Cells[l.Channel],
			queue.SavedCell{Execute: protocol.Execute{Key: l.Key}, Cell: l.Cell})
	}
	return j, lines.Err()
}

// CellsAfter returns the cells after the number n, each once.
func CellsAfter(all []queue.SavedCell, n uint32) []queue.SavedCell {
	// Requests of several connections are recorded in any order.
	slices.SortFunc(all, func(a, b queue.SavedCell) int { return cmp.Compare(a.Cell, b.Cell) })
	var out []queue.SavedCell
	for _, c := range all {
		if c.Cell > n {
			out = append(out, c)
			n = c.Cell
		}
	}
	return out
}
