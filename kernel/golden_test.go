package kernel

import (
	"testing"

	"github.com/sandgate/sandgate/protocol/golden"
)

// TestGoldenRequest compares the requests to a driver, and the manifest.
func TestGoldenRequest(t *testing.T) {
	types := map[string]any{
		"driver request": Request{}, "manifest.json": Manifest{}, "program file": ProgramLanguage{},
		"kept variables": Kept{},
	}
	// The functions in a request are not sent.
	golden.Records(t, "messages.json", types)
	golden.Covers(t, types)
}
