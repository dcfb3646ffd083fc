package librechat

import (
	"context"
	"errors"
	"sync"

	"github.com/sandgate/sandgate/protocol/fault"
)

// headerRequest is the header with an id of a request that its client may cancel.
const headerRequest = "X-LibreChat-Code-Request-ID"

// errCancelled is the cause of the end of a step that its client has cancelled.
var errCancelled = errors.New("the step was cancelled")

// steps are the steps that requests make at this moment. It is safe for concurrent use.
type steps struct {
	mu       sync.Mutex // guards all below
	programs map[string]bool
	requests map[string]context.CancelCauseFunc
}

func newSteps() *steps {
	return &steps{programs: map[string]bool{}, requests: map[string]context.CancelCauseFunc{}}
}

// track notes a step of a program. The returned context ends when the request with the id is
// cancelled. The caller calls leave. Errors: Conflict if another request makes a step of the program.
func (x *steps) track(ctx context.Context, user, program, id string,
) (_ context.Context, leave func(), _ error) {
	ctx, cancel := context.WithCancelCause(ctx)
	program, request := user+" "+program, user+" "+id
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.programs[program] {
		cancel(nil)
		return nil, nil, fault.New(fault.Conflict, "librechat.step",
			"another request continues this program")
	}
	x.programs[program] = true
	if id != "" {
		x.requests[request] = cancel
	}
	return ctx, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.programs, program)
		if id != "" {
			delete(x.requests, request)
		}
		cancel(nil)
	}, nil
}

// cancel ends the step of a request. It returns false if no request has the id.
func (x *steps) cancel(user, id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	end := x.requests[user+" "+id]
	if end != nil {
		end(errCancelled)
	}
	return end != nil
}
