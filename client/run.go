package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// RunRequest is code that is run once, without a WebSocket.
type RunRequest struct {
	// Language is the language of the kernel; empty means python, or the session's language.
	Language string `json:"language,omitempty"`
	// Code has at most 1 MiB.
	Code string `json:"code"`
	// Stdin answers the code's input requests, line by line; nil makes them fail at once.
	Stdin *string `json:"stdin,omitempty"`
	// Files are written before the code runs, at most 64.
	Files []RunFile `json:"files,omitempty"`
	// TimeoutMS is the time after which the code is interrupted; 0 means 30 s, at most 10 min.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Session is an existing session. Without it a session is created and deleted afterwards.
	Session string `json:"session,omitempty"`
	// MaxOutputBytes bounds the output; 0 means 1 MiB, at most 64 MiB.
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
}

// RunFile is a file of a RunRequest.
type RunFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	// Encoding is utf-8, the default, or base64.
	Encoding string `json:"encoding,omitempty"`
}

// Event is one event of a run. Type is start, stdout, stderr, display, result, clear, error,
// truncated or done, and decides which fields are set.
type Event struct {
	Type      string                     `json:"type"`
	Session   string                     `json:"session"`
	Cell      uint32                     `json:"cell"`
	Text      string                     `json:"text"`
	Data      map[string]json.RawMessage `json:"data"`
	Metadata  map[string]json.RawMessage `json:"metadata"`
	DisplayID json.RawMessage            `json:"display_id"`
	Update    bool                       `json:"update"`
	Count     int                        `json:"execution_count"`
	Wait      bool                       `json:"wait"`
	EName     string                     `json:"ename"`
	EValue    string                     `json:"evalue"`
	Traceback []string                   `json:"traceback"`
	Bytes     int64                      `json:"bytes"`
	// Status belongs to done: ok, error, aborted, timeout, lost or failed.
	Status    string        `json:"status"`
	ExitCode  *int          `json:"exit_code"`
	ElapsedMS float64       `json:"elapsed_ms"`
	Fault     *fault.Public `json:"fault"`
}

// maxEvent is the largest size of one event, in bytes.
const maxEvent = 72 << 20

// Run runs code and calls f with each event as it arrives; the last one is done. If f returns an
// error, Run ends the run and returns that error. If done contains a fault, Run calls f and then
// returns the fault.
func (c *Client) Run(ctx context.Context, r RunRequest, f func(Event) error) error {
	const op = "client.run"
	body, err := json.Marshal(r)
	if err != nil {
		return fault.Wrap(fault.InvalidArgument, op, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint([]string{"v1", "run"}),
		bytes.NewReader(body))
	if err != nil {
		return fault.Wrap(fault.InvalidArgument, op, err)
	}
	c.authorize(req.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/x-ndjson")
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return c.transportError(ctx, op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return responseError(op, resp)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return &fault.Error{
				Kind: fault.Malformed, Op: op,
				Message: "an event of the run cannot be read", Err: err,
			}
		}
		if e.Type == "keepalive" {
			continue
		}
		if err := f(e); err != nil {
			return err
		}
		if e.Type == "done" {
			if e.Fault != nil {
				return e.Fault.Err(op)
			}
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return c.transportError(ctx, op, err)
	}
	return fault.New(fault.Unavailable, op, "the connection ended before the end of the run")
}

// Description describes what a server offers to its users.
type Description struct {
	Protocol  string              `json:"protocol"`
	Server    string              `json:"server"`
	Languages []protocol.Language `json:"languages"`
	Scopes    []string            `json:"scopes"`
	Limits    map[string]int64    `json:"limits"`
}

// Describe returns the server's description.
func (c *Client) Describe(ctx context.Context) (Description, error) {
	var d Description
	err := c.call(ctx, "client.describe", http.MethodGet, c.endpoint([]string{"v1"}), nil, &d)
	return d, err
}
