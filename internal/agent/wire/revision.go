package wire

import (
	"fmt"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Revision counts the additions to the wire. After an upgrade, sessions continue with the agent of
// an earlier image, so the host speaks to agents of its own revision and of all earlier ones. An
// agent ignores fields that it does not know. So a field may be added in two ways:
//
//   - If an agent that ignores it does nothing wrong, the field needs nothing else.
//   - Otherwise the field, or the operation, gets a new Revision, and a case in Check.
//
// An operation or a field is never removed, and never changes its meaning.
const Revision = 1

// The first revisions that know an addition.
const (
	revisionSource = 1 // StartProcess.Source
	revisionFolder = 1 // ChangesSince.Path
)

// Check refuses a request that an agent of a revision would misunderstand. Errors: Unsupported.
func Check(op string, params any, revision int) error {
	since, field := 0, ""
	switch p := params.(type) {
	case StartProcess:
		if p.Source != nil {
			since, field = revisionSource, "source"
		}
	case ChangesSince:
		if p.Path != "" {
			since, field = revisionFolder, "path"
		}
	}
	if revision >= since {
		return nil
	}
	return &fault.Error{
		Kind: fault.Unsupported, Op: "agent." + op, Field: field,
		Message: fmt.Sprintf(
			"the session runs with an earlier image, whose agent does not know %s of %s; create a new session for it",
			field, op),
	}
}
