package wire

import (
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestRevisions refuses what an agent of an earlier image would ignore.
func TestRevisions(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]any{
		OpProcessStart: StartProcess{Source: &Source{Path: "x"}},
		OpFileChanges:  ChangesSince{Path: "/data"},
	} {
		err := Check(name, p, 0)
		if !fault.Is(err, fault.Unsupported) || fault.PublicOf(err).Field == "" {
			t.Errorf("%s: %v", name, err)
		}
		if err := Check(name, p, Revision); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]any{
		OpProcessStart: StartProcess{Argv: []string{"x"}}, OpFileChanges: ChangesSince{},
		OpPing: nil,
	} {
		if err := Check(name, p, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
