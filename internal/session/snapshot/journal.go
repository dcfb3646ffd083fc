package snapshot

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
)

// JournalName is the name of the journal in the folder of a copy.
const JournalName = "journal"

// JournalLine is a line of a journal.
type JournalLine struct {
	Channel string `json:"channel"`
	Cell    uint32 `json:"cell"`
	Key     string `json:"key,omitempty"`
}

// ReadJournal returns the cells of each channel that a journal lists. A line
// that was cut belongs to a cell that was not acknowledged.
func ReadJournal(name string) (map[string][]queue.SavedCell, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string][]queue.SavedCell{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var j JournalLine
		if json.Unmarshal(lines.Bytes(), &j) == nil {
			all[j.Channel] = append(all[j.Channel],
				queue.SavedCell{Execute: protocol.Execute{Key: j.Key}, Cell: j.Cell})
		}
	}
	return all, lines.Err()
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
