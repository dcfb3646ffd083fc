package gateway

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/fault"
)

// event is one thing that happens in a run. Type says which fields count.
type event struct {
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

func (e event) json() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(e) != nil { // a bundle's raw JSON was checked when it was parsed
		return []byte(`{"type":"failed"}`)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// encoder writes events to a response.
type encoder interface {
	contentType() string
	append(b []byte, e event) []byte
	keepAlive() string
}

type sse struct{}

func (sse) contentType() string { return "text/event-stream" }
func (sse) keepAlive() string   { return ": keepalive\n\n" }
func (sse) append(b []byte, e event) []byte {
	b = append(b, "event: "+e.Type+"\ndata: "...)
	b = append(b, e.json()...)
	return append(b, "\n\n"...)
}

type ndjson struct{}

func (ndjson) contentType() string { return "application/x-ndjson" }
func (ndjson) keepAlive() string   { return `{"type":"keepalive"}` + "\n" }
func (ndjson) append(b []byte, e event) []byte {
	return append(append(b, e.json()...), '\n')
}

// runResult is a run in one object.
type runResult struct {
	Session string `json:"session"`
	Cell    uint32 `json:"cell"`
	// Status is ok, error, aborted, timeout, lost or failed.
	Status    string  `json:"status"`
	ExitCode  *int    `json:"exit_code,omitempty"`
	ElapsedMS float64 `json:"elapsed_ms"`
	Stdout    string  `json:"stdout"`
	Stderr    string  `json:"stderr"`
	// Results are the display and result events, in order.
	Results []event `json:"results"`
	// Error is the error event of code that failed.
	Error          *event        `json:"error,omitempty"`
	TruncatedBytes int64         `json:"truncated_bytes,omitempty"`
	Fault          *fault.Public `json:"fault,omitempty"`

	stdout, stderr strings.Builder
}

func (r *runResult) add(e event) {
	switch e.Type {
	case "start":
		r.Session, r.Cell, r.Results = e.Session, e.Cell, []event{}
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

// textDecoder turns bytes into text without splitting a character between
// two events. What is no UTF-8 becomes U+FFFD.
type textDecoder struct{ tail []byte }

func (d *textDecoder) decode(p []byte) string {
	b := append(d.tail, p...)
	n := len(b) - incomplete(b)
	d.tail = append([]byte(nil), b[n:]...)
	return strings.ToValidUTF8(string(b[:n]), "\uFFFD")
}

func (d *textDecoder) end() string {
	if len(d.tail) == 0 {
		return ""
	}
	d.tail = nil
	return "\uFFFD"
}

// incomplete returns how many bytes at the end of b, 0 to 3, begin a
// character that is not there as a whole.
func incomplete(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= 0x80 && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// tally counts output against its limit.
type tally struct {
	limit, used, dropped int64
}

// text returns what of s is within the limit.
func (t *tally) text(s string) string {
	left := t.limit - t.used
	if int64(len(s)) <= left {
		t.used += int64(len(s))
		return s
	}
	kept := clip(s, int(max(left, 0)))
	t.used = t.limit
	t.dropped += int64(len(s) - len(kept))
	return kept
}

// take counts n bytes that go in whole or not at all.
func (t *tally) take(n int) bool {
	if t.used+int64(n) > t.limit {
		t.dropped += int64(n)
		return false
	}
	t.used += int64(n)
	return true
}
