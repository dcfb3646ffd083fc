package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/protocol"
)

// commandTimeout is how long a command may run without an argument, in seconds.
const commandTimeout = 120

// runCommand runs a line of the shell to its end.
func runCommand(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Command string `json:"command"`
		Cwd     string `json:"cwd"`
		Session string `json:"session"`
		Timeout int    `json:"timeout_seconds"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := required("command", p.Command); err != nil {
		return nil, err
	}
	seconds, err := within("timeout_seconds", p.Timeout, commandTimeout, maxTimeout)
	if err != nil {
		return nil, err
	}
	seconds = c.most(seconds)
	s, err := c.ensure(ctx, p.Session, "")
	if err != nil {
		return nil, err
	}
	out := outcome{session: p.Session, opened: s, timeout: seconds}
	if err := c.command(ctx, &out, protocol.ExecRequest{
		Session: s.id, Cmd: p.Command, Cwd: p.Cwd, TimeoutMS: int64(seconds) * 1000,
		MaxOutputBytes: maxOutput,
	}); err != nil {
		return nil, err
	}
	return c.result(ctx, &out)
}

// command runs a command and collects its output.
func (c *call) command(ctx context.Context, out *outcome, p protocol.ExecRequest) error {
	running, err := c.cfg.Commands.Start(ctx, c.request, p)
	if err != nil {
		return err
	}
	defer running.Abandon()
	for {
		select {
		case batch, ok := <-running.Events():
			if !ok {
				return nil
			}
			for _, e := range batch {
				out.addExec(e)
				c.progress.output(ctx, e.Text)
			}
		case <-c.progress.tick.C:
			c.progress.idle(ctx)
		case <-ctx.Done():
			return canceled(c)
		}
	}
}

// addExec adds an event of a command.
func (o *outcome) addExec(e exec.Event) {
	switch e.Type {
	case "stdout":
		o.stdout.WriteString(e.Text)
	case "stderr":
		o.stderr.WriteString(e.Text)
	case "files":
		o.files, o.moreFiles = e.Files, e.FilesTruncated
	case "done":
		o.status, o.exit, o.fault = e.Status, e.ExitCode, e.Fault
		o.signal, o.reason, o.dropped = e.Signal, e.Reason, e.TruncatedBytes
	}
}
