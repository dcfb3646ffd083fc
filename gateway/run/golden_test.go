package run

import (
	"testing"

	"github.com/sandgate/sandgate/internal/golden"
)

// TestGoldenBodies compares the bodies of POST /v1/run.
func TestGoldenBodies(t *testing.T) {
	types := map[string]any{
		"POST /v1/run": Request{}, "POST /v1/run result": Result{}, "POST /v1/run event": Event{},
		"POST /v1/run/{id}/input":     inputRequest{},
		"POST /v1/run/{id}/interrupt": interruptRequest{},
	}
	golden.Records(t, "bodies.json", types)
	golden.Covers(t, types)
}
