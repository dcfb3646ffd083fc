package mcp

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/gateway/created"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of code, in seconds and bytes.
const (
	codeTimeout = 60
	maxTimeout  = 600
	maxCode     = 1 << 20
)

// runCode runs code in the default kernel of a language.
func runCode(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Code     string `json:"code"`
		Language string `json:"language"`
		Session  string `json:"session"`
		Timeout  int    `json:"timeout_seconds"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := required("code", p.Code); err != nil {
		return nil, err
	}
	if len(p.Code) > maxCode {
		return nil, fault.Invalid("mcp.run_code", "code", "code has at most %d bytes", maxCode)
	}
	seconds, err := within("timeout_seconds", p.Timeout, codeTimeout, maxTimeout)
	if err != nil {
		return nil, err
	}
	seconds = c.most(seconds)
	s, err := c.ensure(ctx, p.Session, p.Language)
	if err != nil {
		return nil, err
	}
	running, err := c.startCode(ctx, protocol.RunRequest{
		Session: s.id, Code: p.Code, Language: p.Language, TimeoutMS: int64(seconds) * 1000,
		MaxOutputBytes: maxOutput,
	})
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	out := outcome{session: p.Session, opened: s, timeout: seconds}
	for {
		select {
		case batch, ok := <-running.Events():
			if !ok {
				return c.result(ctx, &out)
			}
			for _, e := range batch {
				out.addEvent(e)
				c.progress.output(ctx, e.Text)
			}
		case <-c.progress.tick.C:
			c.progress.idle(ctx)
		case <-ctx.Done():
			return nil, canceled(c)
		}
	}
}

// startCode starts code and follows it in its own goroutine.
func (c *call) startCode(ctx context.Context, p protocol.RunRequest) (*run.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	running, err := c.cfg.Runner.Start(ctx, run.Spec{
		Who: c.who, Request: p,
		Link: func(f protocol.FileRef) (protocol.FileLink, error) {
			return c.cfg.Link(c.request, f, false, created.LinkLife)
		},
	})
	if err != nil {
		return nil, err
	}
	if !c.cfg.Go(running.Follow) {
		running.Stop()
		running.Follow()
		return nil, fault.New(fault.Restarting, "mcp.run_code", "the server is restarting")
	}
	return running, nil
}

// canceled returns the error of a call that its client or a shutdown has ended.
func canceled(c *call) error {
	if c.cfg.Base.Err() != nil {
		return fault.New(fault.Restarting, "mcp.call", "the server is restarting")
	}
	return fault.New(fault.Canceled, "mcp.call", "the call was cancelled")
}

// addEvent adds an event of code.
func (o *outcome) addEvent(e protocol.RunEvent) {
	switch e.Type {
	case "stdout":
		o.stdout.WriteString(e.Text)
	case "stderr":
		o.stderr.WriteString(e.Text)
	case "display", "result":
		o.show(e)
	case "clear":
		o.shown = nil
	case "error":
		o.failure = strings.Join(e.Traceback, "\n")
		if o.failure == "" {
			o.failure = e.EName + ": " + e.EValue
		}
		o.failure = kernelclient.Plain(o.failure)
	case "truncated":
		o.dropped = e.Bytes
	case "files":
		o.files, o.moreFiles = e.Files, e.FilesTruncated
	case "done":
		o.status, o.exit, o.fault = e.Status, e.ExitCode, e.Fault
	}
}

// shown is a value that code has displayed.
type shown struct {
	id      string
	text    string
	picture []byte
	mime    string
}

// show notes a displayed value. An update replaces the value with the same id.
func (o *outcome) show(e protocol.RunEvent) {
	v := shown{id: string(e.DisplayID)}
	for _, mime := range []string{"image/png", "image/jpeg", "image/gif", "image/webp"} {
		if raw, ok := e.Data[mime]; ok && json.Unmarshal(raw, &v.picture) == nil {
			v.mime = mime
			break
		}
	}
	for _, mime := range []string{
		"text/plain", "text/markdown", "text/html", "text/latex", "application/json",
		"image/svg+xml",
	} {
		raw, ok := e.Data[mime]
		if !ok {
			continue
		}
		if json.Unmarshal(raw, &v.text) != nil {
			v.text = string(raw)
		}
		break
	}
	if e.Update && v.id != "" {
		for i := range o.shown {
			if o.shown[i].id == v.id {
				o.shown[i] = v
				return
			}
		}
	}
	o.shown = append(o.shown, v)
}
