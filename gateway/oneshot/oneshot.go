// Package oneshot runs one program, or its function main, in a sandbox of its own, for surfaces whose
// clients send whole programs and keep nothing: Dify, RAGFlow and FastGPT.
//
// A program is a cell of the warm kernel of a ready sandbox, as in POST /v1/run. So it starts without
// a new interpreter. A wrapper in the program's language runs it as a module of its own and reports
// the outcome beside the output, so that output cannot be mistaken for a result.
package oneshot

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The languages of programs.
const (
	Python     = "python"
	JavaScript = "javascript"
)

// MaxCode is the largest program with its arguments, in bytes of JSON.
const MaxCode = 8 << 20

// Program is one program.
type Program struct {
	// The principal Who runs the program. It needs the scope run.
	Who noderpc.Principal
	// Surface is the value of the label surface of the sandbox.
	Surface string
	// Settings are the operator's settings of the surface. Timeout 0 means run.MaxTimeout.
	Settings surfaces.Settings
	// Offline is true if the program does not get the network access of the settings.
	Offline bool
	// Language is Python or JavaScript.
	Language string
	Code     string
	// Call is nil for a program that is only executed.
	Call *Call
	// MaxOutput bounds the output, and the result with it, in bytes.
	MaxOutput int64
	// Files chooses the created files that the outcome has; nil means no file. MaxFiles bounds the
	// sum of their contents, in bytes.
	Files    func(protocol.CreatedFile) bool
	MaxFiles int64
}

// timeout is how long the program may run.
func (p *Program) timeout() time.Duration {
	if p.Settings.Timeout == 0 {
		return run.MaxTimeout
	}
	return p.Settings.Timeout
}

// Call says that the function main of a program is called.
type Call struct {
	// Arguments is a JSON object.
	Arguments []byte
	// Module is the name of the program's module in Python; empty means __main__.
	Module string
	// Helpers is source text in the program's language. In Python it defines call(main, arguments),
	// and may define prepare(names, arguments) and default, as json.dumps has it. In JavaScript it
	// may define prepare(arguments), call(main, arguments) and settle(value).
	Helpers string
}

// Runner runs programs.
type Runner struct {
	Runs *run.Runner
	// Go calls a function in a goroutine that a shutdown waits for. It returns false after a
	// shutdown has begun.
	Go func(func()) bool
}

// Run runs a program to its end. The end of ctx ends the program. Errors: those of session.create,
// TooLarge for a program over MaxCode, Canceled if the client has gone. A program that fails is an
// Outcome.
func (r *Runner) Run(ctx context.Context, p Program) (Outcome, error) {
	request, err := p.request()
	if err != nil {
		return Outcome{}, err
	}
	who := p.Who
	who.Scopes = []string{string(protocol.ScopeRun)}
	result, err := r.Cell(ctx, run.Spec{
		Who: who, Request: request, NoFiles: p.Files == nil, Wanted: p.Files,
	})
	if err != nil {
		return Outcome{}, err
	}
	return outcomeOf(result, p.timeout())
}

// Cell runs one cell to its end. The end of ctx interrupts it. Errors: those of run.Runner.Start,
// Canceled if the client has gone.
func (r *Runner) Cell(ctx context.Context, spec run.Spec) (protocol.RunResult, error) {
	running, err := r.start(ctx, spec)
	if err != nil {
		return protocol.RunResult{}, err
	}
	defer running.Stop()
	result, err := running.Collect(ctx)
	if err != nil {
		err = fault.New(fault.Canceled, "oneshot.run", "the client disconnected")
	}
	return result, err
}

// start starts a run and follows it in its own goroutine.
func (r *Runner) start(ctx context.Context, spec run.Spec) (*run.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Runs.Call)
	defer cancel()
	defer context.AfterFunc(r.Runs.Base, cancel)()
	running, err := r.Runs.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	if !r.Go(running.Follow) {
		running.Stop()
		running.Follow()
		return nil, fault.New(fault.Restarting, "oneshot.start", "the server is restarting")
	}
	return running, nil
}
