package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/internal/kernelclient"
)

const (
	// progressEvery is the time between two notifications while there is output, and idleEvery
	// while there is none.
	progressEvery = 500 * time.Millisecond
	idleEvery     = 5 * time.Second
	// maxProgress is the most output in one notification, in bytes.
	maxProgress = 500
)

// progress reports to a client that a call continues, if the client has asked for it. One goroutine
// uses it.
type progress struct {
	session *sdk.ServerSession
	token   any
	begun   time.Time
	last    time.Time
	sent    int
	text    string // the end of the output
	tick    *time.Ticker
}

func newProgress(req *sdk.CallToolRequest) *progress {
	now := time.Now()
	p := &progress{
		session: req.Session, token: req.Params.GetProgressToken(), begun: now, last: now,
		tick: time.NewTicker(idleEvery),
	}
	return p
}

// output notes output and reports it.
func (p *progress) output(ctx context.Context, text string) {
	if p.token == nil || text == "" {
		return
	}
	p.text += text
	if n := len(p.text) - maxProgress; n > 0 {
		p.text = strings.ToValidUTF8(p.text[n:], "")
	}
	if p.sent == 0 || time.Since(p.last) >= progressEvery {
		p.send(ctx, p.text)
		p.text = ""
	}
}

// idle reports that the call continues. Call it when tick fires.
func (p *progress) idle(ctx context.Context) {
	if p.token == nil || p.text == "" && time.Since(p.last) < idleEvery/2 {
		return
	}
	text := p.text
	if text == "" {
		text = fmt.Sprintf("running for %d s", int(time.Since(p.begun)/time.Second))
	}
	p.send(ctx, text)
	p.text = ""
}

func (p *progress) send(ctx context.Context, text string) {
	p.sent++
	p.last = time.Now()
	_ = p.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ // the client may have gone
		ProgressToken: p.token, Progress: float64(p.sent),
		Message: kernelclient.Clip(strings.TrimSpace(text), maxProgress),
	})
}
