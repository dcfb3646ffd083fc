package cells

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// insistEvery is the time between the interrupts of `do: insist`.
const insistEvery = 500 * time.Millisecond

// execution is a step's cell while it runs.
type execution struct {
	*Session
	step *Step
	cell *wire.Cell
	out  outcome
	work context.Context // ends with the cell
}

// execute runs a step's code. i is the number of its repetition.
func (s *Session) execute(ctx context.Context, step *Step, i int) error {
	code := step.code()
	if step.Repeat > 0 {
		code = strings.ReplaceAll(code, "{i}", fmt.Sprint(i))
	}
	began := s.others.count()
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	cell, err := s.kernel.Execute(limited, code, wire.ExecuteOptions{
		NoInput: step.NoInput,
		Program: step.Whole,
	})
	if err != nil {
		return err
	}
	defer cell.Close()
	x := &execution{Session: s, step: step, cell: cell, work: limited}
	err = x.collect(limited)
	cancel()
	if err != nil {
		err = fmt.Errorf("%w\nthe output before it:\n%s", err, indent(x.out.String(), "    "))
		return errors.Join(err, x.recover(ctx))
	}
	limited, cancel = context.WithTimeout(ctx, s.limit)
	defer cancel()
	step.compare(&x.out, i)
	x.checkEvent(limited, began)
	x.checkLater(limited, began)
	if len(x.out.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s\nthe whole output:\n%s", strings.Join(x.out.problems, "\n"),
		indent(x.out.String(), "    "))
}

// collect reads the cell to its end and executes the step's actions meanwhile.
func (x *execution) collect(ctx context.Context) error {
	for {
		r, err := x.cell.Next(ctx)
		if errors.Is(err, io.EOF) {
			if x.out.reply == nil {
				return errors.New("the cell ended without a reply")
			}
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the cell did not end within %v", x.limit)
		}
		if err != nil {
			return err
		}
		x.out.add(r)
		if err := x.react(ctx, r); err != nil {
			return err
		}
	}
}

func (x *execution) react(ctx context.Context, r frame.Record) error {
	if when := x.step.When; when != nil && x.out.matched.IsZero() {
		if when.Stdout != nil && when.Stdout.MatchString(x.out.stdout.String()) ||
			when.Stderr != nil && when.Stderr.MatchString(x.out.stderr.String()) {
			x.out.matched = time.UnixMicro(r.Time)
			return x.interrupt(ctx, when)
		}
	}
	var m struct {
		Type    string               `json:"msg_type"`
		Content message.InputRequest `json:"content"`
	}
	if r.Kind == frame.KindMessage && json.Unmarshal(r.Payload, &m) == nil &&
		m.Type == message.InputRequestType {
		return x.answer(ctx, m.Content)
	}
	return nil
}

func (x *execution) interrupt(ctx context.Context, when *When) error {
	if when.Do == "nothing" || when.Do == "" {
		return nil
	}
	err := x.kernel.Interrupt(ctx, time.Duration(when.GraceMS)*time.Millisecond)
	if err == nil && when.Do == "insist" {
		go func() {
			tick := time.NewTicker(insistEvery)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					_ = x.kernel.Interrupt(ctx, 0) // a failure ends in the cell's own limit
				case <-x.work.Done():
					return
				}
			}
		}()
	}
	return err
}

// answer answers an input request with the next input of the step.
func (x *execution) answer(ctx context.Context, asked message.InputRequest) error {
	x.out.asked++
	if x.out.asked > len(x.step.Input) {
		if when := x.step.When; when != nil && when.Do != "nothing" {
			return nil // the interrupt ends the request
		}
		x.out.problem("input: request %d with the prompt %q was not expected", x.out.asked,
			asked.Prompt)
		return x.respond(ctx, asked, "", true)
	}
	in := x.step.Input[x.out.asked-1]
	if in.Prompt != nil && asked.Prompt != string(*in.Prompt) {
		x.out.problem("input %d: wanted the prompt %q, got %q", x.out.asked, *in.Prompt,
			asked.Prompt)
	}
	if asked.Password != in.Password {
		x.out.problem("input %d: wanted password %v, got %v", x.out.asked, in.Password,
			asked.Password)
	}
	switch in.Do {
	case "interrupt":
		return x.kernel.Interrupt(ctx, 0)
	case "nothing":
		return nil // the request ends by itself
	}
	return x.respond(ctx, asked, string(in.Value), in.EOF)
}

func (x *execution) respond(ctx context.Context, asked message.InputRequest, value string,
	eof bool,
) error {
	return x.kernel.Input(ctx, protocol.InputReply{
		Cell: x.cell.Number(), Request: asked.Request, Value: value, EOF: eof,
	})
}

// recover makes the kernel usable after a cell that hangs, for the next case.
func (x *execution) recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, x.limit)
	defer cancel()
	_ = x.kernel.Interrupt(ctx, 2*time.Second)
	if _, err := x.cell.Wait(ctx); err != nil {
		if err := x.restart(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("afterwards the kernel could not be restarted: %w", err)
		}
	}
	return nil
}

// await reads the records that belong to no open cell, until found is true.
func (x *execution) await(ctx context.Context, from int, found func(frame.Record) bool) bool {
	for {
		records, more := x.others.since(from)
		if slices.ContainsFunc(records, found) {
			return true
		}
		from += len(records)
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}

// checkEvent waits for the event of the step: a kernel_event, or a record of an event on
// the channel.
func (x *execution) checkEvent(ctx context.Context, from int) {
	want := x.step.Event
	if want == nil || want.May {
		return
	}
	is := func(e message.KernelEvent) bool {
		return e.Event == want.Event && (want.Message == nil || want.Message.MatchString(e.Message))
	}
	if slices.ContainsFunc(x.out.events, is) {
		return
	}
	var came []string
	found := x.await(ctx, from, func(r frame.Record) bool {
		var e message.KernelEvent
		switch r.Kind {
		case frame.KindEvent:
			if json.Unmarshal(r.Payload, &e) != nil {
				return false
			}
		case frame.KindMessage:
			var m message.Message
			if json.Unmarshal(r.Payload, &m) != nil || m.Type != message.KernelEventType ||
				json.Unmarshal(m.Content, &e) != nil {
				return false
			}
		default:
			return false
		}
		came = append(came, e.Event+": "+e.Message)
		return is(e)
	})
	if !found {
		x.out.problem("event: wanted %s, got %q", want.Event, came)
	}
}

// checkLater waits for output of the cell after its reply.
func (x *execution) checkLater(ctx context.Context, from int) {
	later := x.step.Later
	if later == nil {
		return
	}
	var stdout, stderr strings.Builder
	found := x.await(ctx, from, func(r frame.Record) bool {
		if r.Cell != x.cell.Number() {
			return false
		}
		switch r.Kind {
		case frame.KindStdout:
			stdout.Write(r.Payload)
		case frame.KindStderr:
			stderr.Write(r.Payload)
		}
		return (later.Stdout == nil || later.Stdout.MatchString(stdout.String())) &&
			(later.Stderr == nil || later.Stderr.MatchString(stderr.String()))
	})
	if !found {
		x.out.problem("later: stdout %s, stderr %s", show(stdout.String()), show(stderr.String()))
	}
}
