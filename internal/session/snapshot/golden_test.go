package snapshot

import (
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/golden"
	"github.com/sandgate/sandgate/pty"
)

// TestGoldenRecords compares the records of sessions and of their copies.
func TestGoldenRecords(t *testing.T) {
	golden.Records(t, "records.json", map[string]any{
		"sessions/ID/session.json: a hibernated session": Record{},
		"session.json of a copy":                         Manifest{},
		"sessions/ID/owner.json":                         Owner{},
		"journal line of a durable session":              JournalLine{},
	}, pty.State{Size: pty.Size{Cols: 80, Rows: 24}}, pty.PasteFilter{},
		protocol.Network{Allow: []string{"example.org"}})
}
