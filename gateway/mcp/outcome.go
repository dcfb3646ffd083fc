package mcp

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// outcome is the end of code or of a command.
type outcome struct {
	session        string // the name
	opened         opened
	timeout        int
	stdout, stderr strings.Builder
	shown          []shown
	failure        string
	dropped        int64
	files          []protocol.CreatedFile
	moreFiles      bool
	status         string
	exit           *int
	signal         string
	reason         string
	fault          *fault.Public
}

// executed is the structured result of code or of a command.
type executed struct {
	Session   string        `json:"session,omitempty"`
	SessionID string        `json:"session_id"`
	Created   bool          `json:"session_created,omitempty"`
	Status    string        `json:"status"`
	Stdout    string        `json:"stdout"`
	Stderr    string        `json:"stderr"`
	Result    string        `json:"result,omitempty"`
	Error     string        `json:"error,omitempty"`
	ExitCode  *int          `json:"exit_code,omitempty"`
	Output    string        `json:"output_file,omitempty"`
	Files     []createdFile `json:"files"`
}

// result returns the result of code or of a command. The text is complete: several hosts show
// nothing else.
func (c *call) result(ctx context.Context, o *outcome) (*sdk.CallToolResult, error) {
	if ctx.Err() != nil {
		return nil, canceled(c)
	}
	x := executed{
		Session: o.session, SessionID: o.opened.id, Created: o.opened.created, Status: o.status,
		ExitCode: o.exit,
	}
	stdout, stderr := kernelclient.Plain(o.stdout.String()), kernelclient.Plain(o.stderr.String())
	x.Output = c.keep(ctx, o, stdout, stderr)
	note := func(left int) string {
		if x.Output == "" {
			return fmt.Sprintf("[%d bytes left out]", left)
		}
		return fmt.Sprintf("[%d bytes left out; read %s with read_file or search_files]", left,
			x.Output)
	}
	x.Stdout, _ = cut(stdout, note)
	x.Stderr, _ = cut(stderr, note)
	x.Error, _ = cut(o.failure, note)
	var b strings.Builder
	b.WriteString(line(x.Stdout))
	if x.Stderr != "" {
		b.WriteString("[stderr]\n" + line(x.Stderr))
	}
	pictures, texts := o.values()
	x.Result, _ = cut(texts, note)
	b.WriteString(line(x.Result))
	b.WriteString(line(x.Error))
	o.explain(&b)
	if o.dropped > 0 {
		fmt.Fprintf(&b, "[the last %d bytes of output are lost: a call keeps %d bytes]\n",
			o.dropped, maxOutput)
	}
	var links []sdk.Content
	links, x.Files = addFiles(&b, nil, o.files, o.moreFiles)
	if o.opened.created {
		b.WriteString("[the session is new]\n")
	}
	text := strings.TrimRight(b.String(), "\n")
	if text == "" {
		text = "[no output]"
	}
	content := append([]sdk.Content{&sdk.TextContent{Text: text}}, pictures...)
	return &sdk.CallToolResult{
		Content: append(content, links...), StructuredContent: x, IsError: o.status != "ok",
	}, nil
}

// line returns text with a line end, unless it is empty.
func line(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// values returns the pictures and the texts that code has displayed.
func (o *outcome) values() (pictures []sdk.Content, text string) {
	var b strings.Builder
	for _, v := range o.shown {
		switch {
		case v.mime == "":
			b.WriteString(line(v.text))
		case len(v.picture) > maxPicture:
			fmt.Fprintf(&b, "[a picture of %d bytes is left out; save it to a file to get a link]\n",
				len(v.picture))
		case len(pictures) == maxPictures:
			b.WriteString("[one more picture is left out]\n")
		default:
			pictures = append(pictures, &sdk.ImageContent{Data: v.picture, MIMEType: v.mime})
		}
	}
	return pictures, b.String()
}

// explain adds a line about the end, unless it is a success.
func (o *outcome) explain(b *strings.Builder) {
	switch o.status {
	case "ok":
	case "timeout":
		fmt.Fprintf(b, "[stopped after %d s; give a longer timeout_seconds, at most %d, or use "+
			"start_process. Variables and files are kept]\n", o.timeout, maxTimeout)
	case "error":
		if o.exit != nil {
			fmt.Fprintf(b, "[exit code %d]\n", *o.exit)
		}
	case "aborted":
		b.WriteString("[interrupted before or while it ran]\n")
	case "killed":
		if o.reason == "memory" {
			b.WriteString("[killed: the sandbox has no more memory]\n")
		} else {
			fmt.Fprintf(b, "[ended by the signal %s]\n", o.signal)
		}
	default: // lost or failed
		if o.fault != nil {
			fmt.Fprintf(b, "[%s: %s]\n", o.status, o.fault.Message)
		}
		if o.status == "lost" {
			b.WriteString("[variables are lost; repeat the call to continue]\n")
		}
	}
}

// keep writes output that a result cannot show to a file of the session, and returns its path; empty
// if there is no need or no success.
func (c *call) keep(ctx context.Context, o *outcome, stdout, stderr string) string {
	const most = headText + tailText
	if len(stdout) <= most && len(stderr) <= most {
		return ""
	}
	path := "/tmp/output-" + strings.ToLower(rand.Text()[:10]) + ".txt"
	all := stdout
	if stderr != "" {
		all = line(stdout) + "[stderr]\n" + stderr
	}
	if c.write(ctx, protocol.FileWrite{FileRef: file(o.opened.id, path)}, all) != nil {
		return ""
	}
	return path
}

// write writes a file.
func (c *call) write(ctx context.Context, p protocol.FileWrite, content string) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	var f protocol.File
	return c.cfg.Upload(ctx, c.who, protocol.OpFileWrite, p, strings.NewReader(content), &f)
}
