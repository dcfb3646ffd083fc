// Package oneshottest has a runner of programs for tests of surfaces, without a node.
package oneshottest

import (
	"context"

	"github.com/sandgate/sandgate/gateway/oneshot"
)

// Programs is a runner that answers with a fixed outcome.
type Programs struct {
	Outcome oneshot.Outcome
	Err     error
	// Last is the last program.
	Last oneshot.Program
}

// Run returns the outcome and the error.
func (p *Programs) Run(_ context.Context, q oneshot.Program) (oneshot.Outcome, error) {
	p.Last = q
	return p.Outcome, p.Err
}

// Packages returns numpy and pillow, or the error.
func (p *Programs) Packages(_ context.Context, q oneshot.Program) (oneshot.Packages, error) {
	p.Last = q
	return oneshot.Packages{
		Packages: []oneshot.Package{{Name: "numpy", Version: "2.0"}, {Name: "pillow", Version: "11.0"}},
		Modules:  []string{"PIL", "numpy"},
	}, p.Err
}
