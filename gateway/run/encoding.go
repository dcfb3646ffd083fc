package run

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/kernelclient"
)

// Event is one event of a run. Type says which fields are used.
type Event struct {
	Type string `json:"type"`
	// start
	Session string `json:"session,omitempty"`
	Channel string `json:"channel,omitempty"`
	Cell    uint32 `json:"cell,omitempty"`
	// input_request
	Prompt   string `json:"prompt,omitempty"`
	Password bool   `json:"password,omitempty"`
	// stdout, stderr
	Text string `json:"text,omitempty"`
	// display, result
	Data      map[string]json.RawMessage `json:"data,omitempty"`
	Metadata  map[string]json.RawMessage `json:"metadata,omitempty"`
	DisplayID json.RawMessage            `json:"display_id,omitempty"`
	Update    bool                       `json:"update,omitempty"`
	Count     int                        `json:"execution_count,omitempty"`
	// clear
	Wait bool `json:"wait,omitempty"`
	// error
	EName     string   `json:"ename,omitempty"`
	EValue    string   `json:"evalue,omitempty"`
	Traceback []string `json:"traceback,omitempty"`
	// truncated
	Bytes int64 `json:"bytes,omitempty"`
	// done
	Status    string        `json:"status,omitempty"`
	ExitCode  *int          `json:"exit_code,omitempty"`
	ElapsedMS float64       `json:"elapsed_ms,omitempty"`
	Fault     *fault.Public `json:"fault,omitempty"`
}

func (e Event) json() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(e) != nil { // a bundle's raw JSON was checked when it was parsed
		return []byte(`{"type":"failed"}`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Encoder writes events to a response.
type Encoder interface {
	ContentType() string
	// Append appends an event to b.
	Append(b []byte, e Event) []byte
	// KeepAlive returns the text that is sent while there are no events.
	KeepAlive() string
}

// EncoderFor returns the encoder for a content type, or nil if events have no such form.
func EncoderFor(contentType string) Encoder {
	switch contentType {
	case sse{}.ContentType():
		return sse{}
	case ndjson{}.ContentType():
		return ndjson{}
	}
	return nil
}

type sse struct{}

func (sse) ContentType() string { return "text/event-stream" }
func (sse) KeepAlive() string   { return ": keepalive\n\n" }
func (sse) Append(b []byte, e Event) []byte {
	b = append(b, "event: "+e.Type+"\ndata: "...)
	b = append(b, e.json()...)
	return append(b, "\n\n"...)
}

type ndjson struct{}

func (ndjson) ContentType() string { return "application/x-ndjson" }
func (ndjson) KeepAlive() string   { return `{"type":"keepalive"}` + "\n" }
func (ndjson) Append(b []byte, e Event) []byte {
	return append(append(b, e.json()...), '\n')
}

// Result is a run as one object.
type Result struct {
	Session string `json:"session"`
	Cell    uint32 `json:"cell"`
	// Status is ok, error, aborted, timeout, lost or failed.
	Status    string  `json:"status"`
	ExitCode  *int    `json:"exit_code,omitempty"`
	ElapsedMS float64 `json:"elapsed_ms"`
	Stdout    string  `json:"stdout"`
	Stderr    string  `json:"stderr"`
	// Results are the display and result events, in order.
	Results []Event `json:"results"`
	// Error is the error event of failed code.
	Error          *Event        `json:"error,omitempty"`
	TruncatedBytes int64         `json:"truncated_bytes,omitempty"`
	Fault          *fault.Public `json:"fault,omitempty"`

	stdout, stderr strings.Builder
}

// Collect waits for the end of the run and returns all of its output.
func (r *Run) Collect(ctx context.Context) (Result, error) {
	var out Result
	for {
		select {
		case batch, ok := <-r.events:
			if !ok {
				return out, nil
			}
			for _, e := range batch {
				out.add(e)
			}
		case <-ctx.Done():
			return out, fault.Wrap(fault.KindOf(ctx.Err()), "run.collect", ctx.Err())
		}
	}
}

func (r *Result) add(e Event) {
	switch e.Type {
	case "start":
		r.Session, r.Cell, r.Results = e.Session, e.Cell, []Event{}
	case "stdout":
		r.stdout.WriteString(e.Text)
	case "stderr":
		r.stderr.WriteString(e.Text)
	case "display", "result":
		r.Results = append(r.Results, e)
	case "error":
		r.Error = &e
	case "truncated":
		r.TruncatedBytes = e.Bytes
	case "done":
		r.Status, r.ExitCode, r.ElapsedMS, r.Fault = e.Status, e.ExitCode, e.ElapsedMS, e.Fault
		r.Stdout, r.Stderr = r.stdout.String(), r.stderr.String()
	}
}

// tally counts output against its limit.
type tally struct {
	limit, used, dropped int64
}

// text returns the part of s that is within the limit.
func (t *tally) text(s string) string {
	left := t.limit - t.used
	if int64(len(s)) <= left {
		t.used += int64(len(s))
		return s
	}
	kept := kernelclient.Clip(s, int(max(left, 0)))
	t.used = t.limit
	t.dropped += int64(len(s) - len(kept))
	return kept
}

// admit counts n bytes that are sent as a whole or not at all.
func (t *tally) admit(n int) bool {
	if t.used+int64(n) > t.limit {
		t.dropped += int64(n)
		return false
	}
	t.used += int64(n)
	return true
}
