package repl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/program"
	"github.com/sandgate/sandgate/internal/cli/render"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// interruptGrace is the time in which an interrupted cell ends before its kernel restarts.
const interruptGrace = 10 * time.Second

// repl is one conversation with a kernel.
type repl struct {
	a      *console.Invocation
	kernel *wire.Kernel
	view   *render.View
	// code reads a line of code after a prompt, next a line of input for a cell. errLeave ends the
	// conversation, errClear discards the lines typed so far.
	code func(prompt string) (string, error)
	next func(prompt string) (string, error)
	// secret reads a line without showing it.
	secret func(prompt string) (string, error)
	// running is the cell that runs or waits; nil at the prompt.
	running atomic.Pointer[wire.Cell]
	failed  bool
	exit    *int
	// own are the cells of this conversation. If it is not nil, output of others is not shown.
	own *ownCells
}

// The prompts have the same width, so that code lines up.
const (
	firstPrompt = ">>> "
	morePrompt  = "... "
)

var (
	errLeave = errors.New("leave")
	errClear = errors.New("clear")
)

func Run(ctx context.Context, a *console.Invocation, c *wire.Client, o Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Until the console handles Ctrl-C, it ends the command.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	id := o.Session
	if id == "" {
		s, err := c.CreateSession(ctx, protocol.SessionCreate{Language: o.Language, Name: "repl"})
		if err != nil {
			return err
		}
		id = s.ID
		if o.Keep {
			fmt.Fprintf(a.Err, "session %s\n", id)
		} else {
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), program.CleanupLimit)
				defer cancel()
				if derr := c.DeleteSession(ctx, id); derr != nil &&
					!fault.Is(derr, fault.NotFound) && err == nil {
					err = derr
				}
			}()
		}
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.OpenChannel(ctx, protocol.ChannelOpen{
		Session: id, Kind: "kernel", Language: o.Language,
	})
	if err != nil {
		return err
	}
	k, err := conn.Kernel(ctx, id, ch.ID)
	if err != nil {
		return err
	}
	defer func() { _ = k.Close() }()
	r := &repl{a: a, kernel: k}
	switch {
	case o.Code != "":
		defer r.pipe(ctx, o)()
		err = r.cell(ctx, o.Code)
	case console.IsTerminal(a.In) && console.IsTerminal(a.Out):
		err = r.interactive(ctx, ch, o)
	default:
		defer r.pipe(ctx, o)()
		err = r.talk(ctx)
	}
	switch {
	case err != nil:
		return err
	case r.exit != nil:
		return console.ExitStatus(*r.exit & 0xff)
	case r.failed:
		return console.ExitStatus(1)
	}
	return nil
}

// pipe makes the conversation read lines from standard input and show nothing of other clients.
func (r *repl) pipe(ctx context.Context, o Options) (stop func()) {
	in := bufio.NewReaderSize(r.a.In, 64<<10)
	r.view = &render.View{
		Out: r.a.Out, Err: r.a.Err, Figures: o.Figures,
		Colour: r.a.Colour(r.a.Out),
	}
	r.next = func(string) (string, error) {
		line, err := in.ReadString('\n')
		if err != nil && line == "" {
			return "", errLeave
		}
		if len(line) > protocol.MaxCode {
			return "", fault.New(fault.TooLarge, "repl.read", "a line has over %d bytes",
				protocol.MaxCode)
		}
		return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
	}
	r.code, r.secret = r.next, r.next
	r.own = &ownCells{numbers: map[uint32]bool{}}
	r.kernel.Other(r.background)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-interrupts:
				r.interrupt(ctx)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(interrupts)
		close(done)
	}
}

// talk reads code and executes it until the input or the kernel ends.
func (r *repl) talk(ctx context.Context) error {
	pending := ""
	for {
		prompt := firstPrompt
		if pending != "" {
			prompt = morePrompt
		}
		line, err := r.code(prompt)
		switch {
		case errors.Is(err, errClear):
			pending = ""
			continue
		case errors.Is(err, errLeave):
			if strings.TrimSpace(pending) != "" {
				return r.cell(ctx, pending)
			}
			return nil
		case err != nil:
			return err
		}
		first := pending == ""
		pending += line + "\n"
		if strings.TrimSpace(pending) == "" {
			pending = ""
			continue
		}
		if len(pending) > protocol.MaxCode {
			return fault.New(fault.TooLarge, "repl.read", "a cell has over %d bytes",
				protocol.MaxCode)
		}
		state, err := r.kernel.IsComplete(ctx, pending)
		// A dead kernel cannot answer. The cell restarts it.
		if err != nil && !fault.Is(err, fault.Unsupported) && !fault.Is(err, fault.Conflict) {
			return err
		}
		// Any line of a block could be its last one. The block ends with an empty line, or with a
		// line that is not indented.
		inside := !first && strings.TrimSpace(line) != "" && strings.TrimLeft(line, " \t") != line
		if state.IsComplete == "incomplete" || inside && state.IsComplete == "complete" {
			continue
		}
		code := strings.TrimSuffix(pending, "\n")
		pending = ""
		if err := r.cell(ctx, code); err != nil {
			return err
		}
		if r.exit != nil {
			return nil
		}
	}
}

// cell executes code and shows its output.
func (r *repl) cell(ctx context.Context, code string) error {
	cell, err := r.kernel.Execute(ctx, code, wire.ExecuteOptions{KeepGoing: true})
	if err != nil {
		return err
	}
	defer func() { _ = cell.Close() }()
	r.running.Store(cell)
	defer r.running.Store(nil)
	for {
		rec, err := cell.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		r.own.add(rec.Cell)
		ask, err := r.view.Record(rec)
		if err != nil {
			return err
		}
		if ask != nil {
			if err := r.answer(ctx, cell, ask); err != nil {
				return err
			}
		}
	}
	r.view.EndLine()
	reply := cell.Reply()
	if reply.Status != "ok" {
		r.failed = true
	}
	r.exit = reply.ExitCode
	return nil
}

// answer reads a line for a cell that asked for one.
func (r *repl) answer(ctx context.Context, cell *wire.Cell, ask *message.InputRequest) error {
	read := r.next
	if ask.Password {
		read = r.secret
	}
	line, err := read(ask.Prompt)
	if errors.Is(err, errClear) {
		r.interrupt(ctx)
		return nil
	}
	eof := errors.Is(err, errLeave)
	if err != nil && !eof {
		return err
	}
	err = r.kernel.Input(ctx, protocol.InputReply{
		Cell: cell.Number(), Request: ask.Request, Value: line, EOF: eof,
	})
	if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) {
		return nil // the cell was interrupted meanwhile
	}
	return err
}

// interrupt stops this conversation's cell, and no cell of another client of the kernel. It does not
// wait.
func (r *repl) interrupt(ctx context.Context) {
	cell := r.running.Load()
	if cell == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, 2*interruptGrace)
		defer cancel()
		_ = cell.Interrupt(ctx, interruptGrace)
	}()
}

// background shows output that belongs to no cell: of threads that continue, and the kernel's end.
func (r *repl) background(rec frame.Record) {
	if !r.own.shows(rec.Cell) {
		return
	}
	if rec.Kind == frame.KindStdout || rec.Kind == frame.KindStderr ||
		rec.Kind == frame.KindEvent {
		_, _ = r.view.Record(rec)
	}
}
