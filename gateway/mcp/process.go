package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/gateway/process"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of reading the output of a process.
const (
	maxWait = 60       // seconds
	maxRead = 30 << 10 // bytes, beyond which no more output is read
)

// startedProcess is the structured result of start_process.
type startedProcess struct {
	Session   string `json:"session,omitempty"`
	SessionID string `json:"session_id"`
	Process   string `json:"process"`
}

// startProcess starts a command that continues after the call.
func startProcess(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Command string `json:"command"`
		Cwd     string `json:"cwd"`
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := required("command", p.Command); err != nil {
		return nil, err
	}
	s, err := c.ensure(ctx, p.Session, "")
	if err != nil {
		return nil, err
	}
	open := protocol.ChannelOpen{Session: s.id, Cwd: p.Cwd}
	ch, err := c.processCaller().Start(ctx, open, p.Command)
	if err != nil {
		return nil, err
	}
	return answer(fmt.Sprintf("The process %s runs. read_output shows its output, stop_process "+
		"stops it.", ch.ID), startedProcess{p.Session, s.id, ch.ID}), nil
}

// processOutput is the structured result of read_output.
type processOutput struct {
	Process    string `json:"process"`
	State      string `json:"state"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	Output     string `json:"output"`
	NextOffset int64  `json:"next_offset"`
	More       bool   `json:"more,omitempty"`
	LostBytes  int64  `json:"lost_bytes,omitempty"`
}

// readOutput reads the output of a process from an offset, and waits for more if it is asked to.
func readOutput(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Process string `json:"process"`
		Offset  int64  `json:"offset"`
		Wait    int    `json:"wait_seconds"`
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if _, err := within("wait_seconds", p.Wait, 0, maxWait); err != nil {
		return nil, err
	}
	if p.Offset < 0 {
		return nil, fault.Invalid("mcp.read_output", "offset", "an offset is 0 or more")
	}
	s, err := c.existing(ctx, p.Session)
	if err != nil {
		return nil, err
	}
	if p.Process == "" {
		return c.processes(ctx, s.id)
	}
	out, err := c.read(ctx, protocol.Attach{
		Session: s.id, Channel: p.Process, Offset: p.Offset, ReadOnly: true,
	}, time.Duration(p.Wait)*time.Second)
	if err != nil {
		return nil, err
	}
	return answer(out.render(), out), nil
}

// render returns the result as text.
func (x processOutput) render() string {
	var b strings.Builder
	if x.LostBytes > 0 {
		fmt.Fprintf(&b, "[%d bytes of output are no longer kept]\n", x.LostBytes)
	}
	b.WriteString(line(x.Output))
	switch {
	case x.ExitCode != nil:
		fmt.Fprintf(&b, "[the process has ended with the exit code %d]\n", *x.ExitCode)
	case x.State == stateExited:
		b.WriteString("[the process has ended]\n")
	case x.More:
		fmt.Fprintf(&b, "[there is more output; continue with offset %d]\n", x.NextOffset)
	default:
		fmt.Fprintf(&b, "[the process runs; later output begins at offset %d]\n", x.NextOffset)
	}
	return strings.TrimRight(b.String(), "\n")
}

// The states of a process in results.
const (
	stateRunning = "running"
	stateExited  = "exited"
)

// processCaller works with the processes of the call.
func (c *call) processCaller() process.Caller {
	return process.Caller{Node: c.cfg.Node, Who: c.who, Call: c.cfg.Call}
}

// read reads the output of a process to its present end. If there is none, it waits until some comes
// or the time to wait is over.
func (c *call) read(ctx context.Context, attach protocol.Attach, wait time.Duration,
) (processOutput, error) {
	out := processOutput{Process: attach.Channel, State: stateRunning}
	part, err := c.processCaller().Read(ctx, attach, wait, maxRead)
	switch {
	case err != nil && ctx.Err() != nil:
		return out, canceled(c)
	case err != nil:
		return out, missingProcess(err, attach.Channel)
	}
	if part.Exit != nil {
		out.exited(*part.Exit)
	}
	out.Output, out.NextOffset = kernelclient.Plain(part.Text), part.Next
	out.More, out.LostBytes = part.More, part.Lost
	return out, nil
}

func (x *processOutput) exited(exit protocol.Exit) {
	x.State = stateExited
	if exit.Code >= 0 {
		x.ExitCode = &exit.Code
	}
}

func missingProcess(err error, process string) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	return &fault.Error{
		Kind: fault.NotFound, Op: "mcp.process", Field: "process",
		Message: fmt.Sprintf("the session has no process %q; read_output without a process lists "+
			"them", process),
	}
}

// listedProcess is a process in the structured result of read_output.
type listedProcess struct {
	Process string `json:"process"`
	Command string `json:"command"`
	State   string `json:"state"`
}

// processes lists the processes of a session.
func (c *call) processes(ctx context.Context, session string) (*sdk.CallToolResult, error) {
	list, err := c.processCaller().List(ctx, session)
	if err != nil {
		return nil, err
	}
	found := []listedProcess{}
	var b strings.Builder
	for _, ch := range list {
		command := kernelclient.Clip(process.Command(ch), 200)
		found = append(found, listedProcess{ch.ID, command, ch.State})
		fmt.Fprintf(&b, "%s %s: %s\n", ch.ID, ch.State, command)
	}
	text := strings.TrimRight(b.String(), "\n")
	if text == "" {
		text = "[the session has no processes]"
	}
	return answer(text, map[string]any{"processes": found}), nil
}

// stopProcess ends a process and everything that it started.
func stopProcess(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Process string `json:"process"`
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := required("process", p.Process); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(p.Process, "p") {
		return nil, missingProcess(fault.New(fault.NotFound, "mcp.process", "none"), p.Process)
	}
	s, err := c.existing(ctx, p.Session)
	if err != nil {
		return nil, err
	}
	err = c.node(ctx, protocol.OpChannelClose,
		protocol.ChannelRef{Session: s.id, Channel: p.Process}, nil)
	if err != nil {
		return nil, missingProcess(err, p.Process)
	}
	return answer("The process "+p.Process+" is stopped.",
		map[string]any{"process": p.Process, "state": "stopped"}), nil
}
