package audit

import (
	"testing"

	"github.com/sandgate/sandgate/internal/golden"
	"github.com/sandgate/sandgate/protocol"
)

// TestGoldenRecords compares a line of the journal.
func TestGoldenRecords(t *testing.T) {
	golden.Records(t, "records.json", map[string]any{"audit line": protocol.AuditEntry{}})
}
