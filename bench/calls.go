package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// eventRate is the number of events per second of the figure of the feed, eventTime is how long.
const (
	eventRate = 1000
	eventTime = 10 * time.Second
)

// measureCalls prints the figures of single requests: a command and a cell over HTTP beside the same
// over the WebSocket, by turns, a run in a sandbox of its own, the feed of events, and what the
// Python client costs.
func measureCalls(ctx context.Context, n int) error {
	s, err := e2e.Start(ctx, "pool: {size: 4, memory: 0, languages: [python]}\n"+
		"librechat: {runs_per_30s: 0}")
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := callsInSession(ctx, s, n); err != nil {
		return err
	}
	var once []float64
	for range n / 4 {
		if err := s.Warm(ctx); err != nil {
			return err
		}
		took, err := post(ctx, s, "/v1/run", map[string]any{"code": "1"})
		if err != nil {
			return err
		}
		once = append(once, took)
	}
	line("POST /v1/run of 1", once)
	if err := feed(ctx); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", "-m", "tests.overhead")
	cmd.Dir = filepath.Join("client", "python")
	cmd.Env = append(os.Environ(), "PYTHONPATH=src")
	out, err := cmd.CombinedOutput()
	fmt.Printf("the Python client, of each call:\n%s", out)
	return err
}

// way is one way to make a call.
type way struct {
	name string
	call func() (float64, error)
	took []float64 // ms
}

// callsInSession measures requests to one session.
func callsInSession(ctx context.Context, s *e2e.Server, n int) error {
	c, err := client.New(client.Options{URL: s.URL, Token: s.Token})
	if err != nil {
		return err
	}
	defer c.Close()
	sandbox, err := c.Sandbox(ctx, client.SandboxOptions{Language: "python"})
	if err != nil {
		return err
	}
	defer func() { _ = sandbox.Delete(context.WithoutCancel(ctx)) }()
	path := "/v1/sessions/" + sandbox.ID()
	// The session of LibreChat is used by one way only, so the way beside it has one, too.
	beside, err := c.Sandbox(ctx, client.SandboxOptions{Language: "python"})
	if err != nil {
		return err
	}
	defer func() { _ = beside.Delete(context.WithoutCancel(ctx)) }()
	tools, end, err := toolWays(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	ways := []way{
		{name: "exec of true, HTTP", call: func() (float64, error) {
			return post(ctx, s, path+"/exec", map[string]any{
				"argv": []string{"true"}, "files": false,
			})
		}},
		{name: "exec of true, HTTP, with its files", call: func() (float64, error) {
			return post(ctx, s, path+"/exec", map[string]any{"argv": []string{"true"}})
		}},
		{name: "exec of true, WebSocket", call: func() (float64, error) {
			begin := time.Now()
			_, err := sandbox.Exec(ctx, "", client.ExecOptions{
				Argv: []string{"true"}, NoFiles: true, Check: true,
			})
			return ms(time.Since(begin)), err
		}},
		{name: "run of 1, HTTP", call: func() (float64, error) {
			return post(ctx, s, path+"/run", map[string]any{"code": "1"})
		}},
		{name: "run of 1, WebSocket", call: func() (float64, error) {
			begin := time.Now()
			_, err := sandbox.Run(ctx, "1", client.RunOptions{NoFiles: true, Check: true})
			return ms(time.Since(begin)), err
		}},
	}
	chat, err := chatWays(ctx, s, beside)
	if err != nil {
		return err
	}
	ways = append(ways, chat...)
	for _, t := range tools {
		ways = append(ways, way{name: t.name, call: t.call})
	}
	for i := range n + 1 {
		for w := range ways {
			took, err := ways[w].call()
			if err != nil {
				return fmt.Errorf("%s: %w", ways[w].name, err)
			}
			if i > 0 { // the first one opens connections
				ways[w].took = append(ways[w].took, took)
			}
		}
	}
	for _, w := range ways {
		line(w.name, w.took)
	}
	return nil
}

// chatWays are runs of LibreChat, and native commands in another session that do the same: short Bash
// code is an argument, and Python code is in a file.
func chatWays(ctx context.Context, s *e2e.Server, beside *client.Sandbox) (ways []way, err error) {
	if _, err := beside.Files.Write(ctx, "main.py", []byte("1")); err != nil {
		return nil, err
	}
	for _, x := range []struct {
		native, chat, lang, code string
		argv                     []string
	}{
		{
			"exec of bash, HTTP, with its files", "exec of bash, LibreChat", "bash", "true",
			[]string{"bash", "-c", "true"},
		},
		{
			"exec of python, HTTP, with its files", "exec of python, LibreChat", "py", "1",
			[]string{"python3", "main.py"},
		},
	} {
		ways = append(ways,
			way{name: x.native, call: func() (float64, error) {
				return post(ctx, s, "/v1/sessions/"+beside.ID()+"/exec", map[string]any{"argv": x.argv})
			}},
			way{name: x.chat, call: func() (float64, error) {
				return post(ctx, s, "/librechat/v1/exec", map[string]any{
					"lang": x.lang, "code": x.code, "runtime_session_hint": "bench",
				})
			}})
	}
	return ways, nil
}

// post makes a request and returns the time until its whole answer is there, in milliseconds.
func post(ctx context.Context, s *e2e.Server, path string, body any) (float64, error) {
	var answer struct{ Status string }
	begin := time.Now()
	status, err := s.JSON(ctx, http.MethodPost, path, body, &answer)
	took := ms(time.Since(begin))
	if err == nil && (status != http.StatusOK || answer.Status != "ok") {
		err = fault.New(fault.Internal, "bench.post", "%s: %d, %s", path, status, answer.Status)
	}
	return took, err
}

// feed emits events at a steady rate into a feed on disk, and measures the time until a reader of the
// feed has each of them.
func feed(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "sandgate-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := local.OpenFeedStore(filepath.Join(dir, "events"))
	if err != nil {
		return err
	}
	f := event.New(store, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, f.Close(context.WithoutCancel(ctx)), store.Close()) }()
	total := int(eventTime.Seconds()) * eventRate
	sent := make([]time.Time, total)
	begin := time.Now()
	go func() {
		for i := range total {
			time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Second / eventRate)))
			sent[i] = time.Now()
			f.Emit(event.Event{Tenant: "t", FeedEvent: protocol.FeedEvent{
				Type: protocol.FeedSessionCreated, Data: event.Data(map[string]any{"n": i}),
			}})
		}
	}()
	var lags []float64
	for cursor := ""; len(lags) < total; {
		p, err := f.Read(ctx, "t", protocol.EventQuery{
			After: cursor, Limit: protocol.MaxEvents, WaitSeconds: 10,
		})
		if err != nil {
			return err
		}
		if len(p.Events) == 0 {
			return fault.New(fault.Internal, "bench.feed", "%d of %d events came", len(lags), total)
		}
		now := time.Now()
		for range p.Events {
			lags = append(lags, ms(now.Sub(sent[len(lags)])))
		}
		cursor = p.Cursor
	}
	rate := float64(total) / time.Since(begin).Seconds()
	fmt.Printf("%-44s %7.0f /s, of %d sent each second\n", "events of a feed",
		math.Round(rate), eventRate)
	line("an event, from its cause to a reader", lags)
	return nil
}
