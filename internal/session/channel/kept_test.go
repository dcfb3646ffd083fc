package channel

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// scriptedAgent answers requests: starts of kernels, and restore with an answer.
type scriptedAgent struct {
	answer any // the reply of the driver, or an error

	mu   sync.Mutex // guards all below
	ops  []string
	keep kernel.Keep
}

// serve answers the requests of a client until its wire ends.
func (a *scriptedAgent) serve(from io.Reader, to io.Writer) {
	in, out := frame.NewReader(from, 0), frame.NewWriter(to)
	for {
		f, err := in.Next()
		if err != nil {
			return
		}
		var r wire.Request
		if f.Type != frame.Control || json.Unmarshal(f.Body, &r) != nil || r.ID == 0 {
			continue
		}
		body, _ := json.Marshal(a.take(r)) // strings and numbers
		if out.Write(frame.Frame{Type: frame.Control, Body: body}) != nil {
			return
		}
	}
}

func (a *scriptedAgent) take(r wire.Request) wire.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ops = append(a.ops, r.Op)
	var result any = message.Info{Language: "test"}
	if r.Op == wire.OpKernelRequest {
		var q kernel.Request
		if json.Unmarshal(r.Params, &q) == nil && q.Keep != nil {
			a.keep = *q.Keep
		}
		result = a.answer
	}
	response := wire.Response{ID: r.ID}
	if err, ok := result.(error); ok {
		response.Error, _ = json.Marshal(fault.PublicOf(err))
	} else {
		response.Result, _ = json.Marshal(result)
	}
	return response
}

// TestRestoreVariables: a new kernel gets the variables of the one before an upgrade once. If it does
// not survive that, another one starts without them.
func TestRestoreVariables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer       any
		ops, message string
	}{
		"restored": {
			map[string]any{
				"op": "reply", "status": "ok", "kept": []string{"x"}, "kept_count": 3, "lost": []string{"y"},
			},
			"kernel.start kernel.request",
			"the variables from before the upgrade are restored: x and 2 more; without y",
		},
		"refused": {
			map[string]any{"op": "reply", "status": "error", "evalue": "it is damaged"},
			"kernel.start kernel.request file.remove",
			"the variables from before the upgrade could not be restored",
		},
		"died": {
			fault.New(fault.KernelDied, "test", "a value has ended it"),
			"kernel.start kernel.request file.remove close kernel.start",
			"the variables from before the upgrade could not be restored",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &scriptedAgent{answer: c.answer}
			r := newRig(t)
			toAgent, fromHost := io.Pipe()
			toHost, fromAgent := io.Pipe()
			go a.serve(toAgent, fromAgent)
			r.cfg.Agent, r.cfg.BootLimit = client.New(toHost, fromHost, r.Router()), time.Minute
			t.Cleanup(func() { _, _ = fromAgent.Close(), fromHost.Close() })
			ch, err := r.add(protocol.ChannelOpen{Kind: "kernel"}, "test", nil)
			if err != nil {
				t.Fatal(err)
			}
			ch.kept = "/home/user/.sandgate/kept/k1"
			close(ch.opened)
			var v snapshot.Channel
			if ch.state(&v); v.Kept != ch.kept {
				t.Errorf("the record has %q", v.Kept)
			}
			d, info, err := ch.startKernel(t.Context())
			if err != nil || d == nil || info.Language != "test" {
				t.Fatalf("%v %v %v", d, info, err)
			}
			a.mu.Lock()
			ops := strings.Join(a.ops, " ")
			a.mu.Unlock()
			if ops != c.ops || a.keep.File != "/home/user/.sandgate/kept/k1" || a.keep.Seconds == 0 {
				t.Errorf("%q with %+v, want %q", ops, a.keep, c.ops)
			}
			if said := r.read(ch, frame.KindEvent); !strings.Contains(said, `"message":"`+c.message+`"`) ||
				!strings.Contains(said, `"event":"variables_restored"`) {
				t.Errorf("the log: %s", said)
			}
			if _, _, err := ch.startKernel(t.Context()); err != nil || ch.kept != "" {
				t.Errorf("the next start: %v, %q is left", err, ch.kept)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			if got := strings.Join(a.ops, " "); got != c.ops+" kernel.start" {
				t.Errorf("with the next start: %q", got)
			}
		})
	}
}
