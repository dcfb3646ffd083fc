package client

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// MaxOutput is the default of the largest output that a result keeps, in bytes.
const MaxOutput = 16 << 20

// RunOptions are the settings of a run. The zero value means the defaults.
type RunOptions struct {
	// Language is python, javascript, typescript, go, java, php, bash or sql, or an alias such as
	// js. Empty means the session's language. Kernel.Run does not use it.
	Language string
	// OnStdout, OnStderr and OnResult get the parts of the output as they arrive. OnOutput gets
	// all of them.
	OnStdout func(text string)
	OnStderr func(text string)
	OnResult func(r *Result)
	OnOutput func(o Output)
	// OnInput answers the code's requests for input. After an error, input has ended. Stdin has
	// lines that answer them instead; nil means that input functions fail at once.
	OnInput func(ctx context.Context, prompt string, password bool) (string, error)
	Stdin   *string
	// Timeout is the time after which the code is interrupted; 0 means never.
	Timeout time.Duration
	// Check returns an *ExecutionError if the code fails.
	Check bool
	// Silent does not count the run, and does not keep it in the history.
	Silent bool
	// Program ends the run when a program would end: with its threads and timers.
	Program bool
	// NoFiles leaves out the files that the run created, changed or removed, which costs one
	// request less.
	NoFiles bool
	// Key is an idempotency key. A repeat with the same key runs nothing, and returns the output as
	// far as the server has it.
	Key string
	// MaxOutput is the number of bytes of output that the result keeps; 0 means MaxOutput.
	MaxOutput int
}

// Kernel runs code of one language, and keeps the variables. It is safe for concurrent use.
type Kernel struct {
	// Language is the language of the kernel.
	Language string
	// ID is the id of its channel.
	ID string

	sandbox *Sandbox
	kernel  *wire.Kernel
	key     string
}

// KernelOptions select a kernel.
type KernelOptions struct {
	// Key is the key of a separate kernel, which Close ends. Empty means the kernel that all users
	// of the session share.
	Key string
}

// Kernel returns the kernel of a language, by name or alias, which is started if there is none. An
// empty language means the session's.
func (s *Sandbox) Kernel(
	ctx context.Context, language string, o ...KernelOptions,
) (*Kernel, error) {
	key := first(o).Key
	select {
	case s.kernelLock <- struct{}{}:
		defer func() { <-s.kernelLock }()
	case <-ctx.Done():
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "client.kernel", ctx.Err())
	}
	name := language + "/" + key
	s.mu.Lock()
	k := s.kernels[name]
	s.mu.Unlock()
	if k != nil && k.kernel.Err() == nil {
		return k, nil
	}
	conn, ch, err := s.open(ctx, protocol.ChannelOpen{Kind: "kernel", Language: language, Key: key})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	for _, other := range s.kernels { // an alias of the same kernel
		if other.ID == ch.ID && other.kernel.Err() == nil {
			s.kernels[name] = other
			s.mu.Unlock()
			return other, nil
		}
	}
	s.mu.Unlock()
	attached, err := conn.Kernel(ctx, s.id, ch.ID)
	if err != nil {
		return nil, err
	}
	k = &Kernel{Language: ch.Language, ID: ch.ID, sandbox: s, kernel: attached, key: key}
	s.mu.Lock()
	s.kernels[name] = k
	s.mu.Unlock()
	return k, nil
}

// Run runs code in the kernel of a language. Variables stay between runs. Code that fails is no
// error unless RunOptions.Check is set: see Execution.Error. If ctx ends, the code is interrupted.
func (s *Sandbox) Run(ctx context.Context, code string, o ...RunOptions) (*Execution, error) {
	k, err := s.Kernel(ctx, first(o).Language)
	if err != nil {
		return nil, err
	}
	return k.Run(ctx, code, o...)
}

// Stream runs code in the kernel of a language and iterates over its output as it arrives. The last
// item is done, or an error. Leaving the loop interrupts the code.
func (s *Sandbox) Stream(
	ctx context.Context, code string, o ...RunOptions,
) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		k, err := s.Kernel(ctx, first(o).Language)
		if err != nil {
			yield(Output{}, err)
			return
		}
		k.Stream(ctx, code, o...)(yield)
	}
}

// Interrupt stops the running code of the kernel of a language, and aborts the queued runs.
// Variables stay.
func (s *Sandbox) Interrupt(ctx context.Context, language string) error {
	k, err := s.Kernel(ctx, language)
	if err != nil {
		return err
	}
	return k.Interrupt(ctx, 0)
}

// Run runs code: see Sandbox.Run. The code runs once, also when the connection is lost meanwhile.
func (k *Kernel) Run(ctx context.Context, code string, o ...RunOptions) (*Execution, error) {
	options := first(o)
	e := &Execution{Language: k.Language, limit: options.MaxOutput}
	if e.limit == 0 {
		e.limit = MaxOutput
	}
	cursor := ""
	if !options.NoFiles {
		var err error
		if cursor, err = k.sandbox.changes.begin(ctx); err != nil {
			return nil, err
		}
	}
	for output, err := range k.Stream(ctx, code, options) {
		if err != nil {
			return nil, err
		}
		e.add(output)
		options.report(output)
	}
	if options.Timeout > 0 && !e.OK() && e.Elapsed >= options.Timeout {
		e.Status = "timeout"
	}
	if !options.NoFiles {
		var err error
		if e.Files, err = k.sandbox.changes.since(ctx, cursor); err != nil {
			return e, err
		}
	}
	if options.Check && !e.OK() {
		if e.Error != nil {
			return e, e.Error
		}
		return e, &ExecutionError{Name: e.Status}
	}
	return e, nil
}

// report passes a part of the output to the callbacks.
func (o RunOptions) report(output Output) {
	if o.OnOutput != nil {
		o.OnOutput(output)
	}
	switch {
	case output.Type == OutputStdout && o.OnStdout != nil:
		o.OnStdout(output.Text)
	case output.Type == OutputStderr && o.OnStderr != nil:
		o.OnStderr(output.Text)
	case (output.Type == OutputResult || output.Type == OutputDisplay) && o.OnResult != nil:
		o.OnResult(output.Result)
	}
}

// Stream runs code and iterates over its output: see Sandbox.Stream.
func (k *Kernel) Stream(
	ctx context.Context, code string, o ...RunOptions,
) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		options := first(o)
		var lines []string
		if options.Stdin != nil {
			lines = strings.Split(strings.TrimSuffix(*options.Stdin, "\n"), "\n")
		}
		cell, err := k.kernel.Execute(ctx, code, wire.ExecuteOptions{
			Key: options.Key, Silent: options.Silent, Program: options.Program,
			NoInput: options.OnInput == nil && options.Stdin == nil,
			// A run that fails does not abort the runs of other callers.
			KeepGoing: true, Timeout: options.Timeout,
		})
		if err != nil {
			yield(Output{}, err)
			return
		}
		if options.Key != "" && cell.Repeated() {
			number := cell.Number()
			_ = cell.Close() // never fails
			k.replay(ctx, number, yield)
			return
		}
		defer k.leave(ctx, cell)
		var texts decoder
		for {
			record, err := cell.Next(ctx)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Output{}, err)
				return
			}
			for _, output := range texts.decode(record) {
				if output.Type == OutputInput {
					if err := k.answer(ctx, cell, output, options, &lines); err != nil {
						yield(Output{}, err)
						return
					}
				}
				if !yield(output, nil) {
					return
				}
			}
		}
	}
}

// replay yields the output of a cell that another request has begun, as far as the server has it.
func (k *Kernel) replay(
	ctx context.Context, number uint32, yield func(Output, error) bool,
) {
	conn, err := k.sandbox.client.connect(ctx)
	if err != nil {
		yield(Output{}, err)
		return
	}
	v, err := conn.Attach(ctx, k.sandbox.id, k.ID, wire.AttachOptions{ReadOnly: true})
	if err != nil {
		yield(Output{}, err)
		return
	}
	defer func() { _ = v.Close() }()
	old := v.Channel()
	var texts decoder
	for {
		_, at := v.Offset()
		if at >= old.End && old.State != "busy" && old.Queued == 0 {
			yield(Output{}, fault.New(fault.Slow, "client.run",
				"the server no longer has the end of the output of the run with this key"))
			return
		}
		record, err := v.Next(ctx)
		if err != nil {
			yield(Output{}, err)
			return
		}
		if record.Cell != number && record.Kind != frame.KindGap {
			continue
		}
		for _, output := range texts.decode(record) {
			if !yield(output, nil) || output.Type == OutputDone {
				return
			}
		}
	}
}

// answer answers a request for input.
func (k *Kernel) answer(
	ctx context.Context, cell *wire.Cell, ask Output, o RunOptions, lines *[]string,
) error {
	line, end := "", true
	switch {
	case o.OnInput != nil:
		text, err := o.OnInput(ctx, ask.Text, ask.Password)
		line, end = text, err != nil
	case len(*lines) > 0:
		line, end = (*lines)[0], false
		*lines = (*lines)[1:]
	}
	err := k.kernel.Input(ctx, protocol.InputReply{
		Cell: cell.Number(), Request: ask.Request, Value: line, EOF: end,
	})
	if fault.Is(err, fault.Conflict) {
		return nil // the code was interrupted meanwhile
	}
	return err
}

// interruptTimeout is the longest time for the interrupt of abandoned code.
const interruptTimeout = 5 * time.Second

// leave discards the output of a cell, and interrupts the code if it has not ended.
func (k *Kernel) leave(ctx context.Context, cell *wire.Cell) {
	if cell.Reply() == nil && cell.Number() != 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
		defer cancel()
		_ = cell.Interrupt(ctx, 0) // the caller has left; the code may have ended
	}
	_ = cell.Close()
}

// Interrupt stops the running code and aborts the queued runs. Variables stay. Code that has not
// stopped after grace makes the server kill the kernel; 0 means never.
func (k *Kernel) Interrupt(ctx context.Context, grace time.Duration) error {
	return k.kernel.Interrupt(ctx, grace)
}

// Restart restarts the kernel, and returns when it is ready. Its variables are lost.
func (k *Kernel) Restart(ctx context.Context) error { return k.kernel.Restart(ctx) }

// Complete returns completions of code at the cursor, which counts characters.
func (k *Kernel) Complete(ctx context.Context, code string, cursor int) (message.Reply, error) {
	return k.kernel.Complete(ctx, code, cursor)
}

// Inspect returns the documentation of the name at the cursor. It is empty for an unknown name.
func (k *Kernel) Inspect(
	ctx context.Context, code string, cursor, detail int,
) (*Result, error) {
	reply, err := k.kernel.Inspect(ctx,
		protocol.Complete{Code: code, Cursor: cursor, Detail: detail})
	return &Result{Data: reply.Data}, err
}

// IsComplete returns whether code is complete: complete, incomplete, invalid or unknown.
func (k *Kernel) IsComplete(ctx context.Context, code string) (string, error) {
	reply, err := k.kernel.IsComplete(ctx, code)
	return reply.IsComplete, err
}

// Variables returns the user's variables, at most 500.
func (k *Kernel) Variables(ctx context.Context) ([]message.Variable, error) {
	return k.kernel.Variables(ctx)
}

// History returns the code that the kernel has run, oldest first.
func (k *Kernel) History(ctx context.Context) ([]protocol.HistoryEntry, error) {
	return k.kernel.History(ctx)
}

// Comm sends a message to the kernel's side of a widget: comm_open, comm_msg or comm_close.
func (k *Kernel) Comm(ctx context.Context, kind string, c message.Comm) error {
	return k.kernel.Comm(ctx, kind, c)
}

// Close detaches. A kernel that was opened with a key is ended.
func (k *Kernel) Close() error {
	s := k.sandbox
	s.mu.Lock()
	for name, other := range s.kernels {
		if other == k {
			delete(s.kernels, name)
		}
	}
	s.mu.Unlock()
	_ = k.kernel.Close() // the connection may have ended
	if k.key == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.CloseChannel(ctx, k.ID)
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		return nil // it has ended
	}
	return err
}
