// Package bridge lets a program that speaks MCP on standard input and output use a server: it sends
// each message to the server's path /mcp and returns the answers.
package bridge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// stateless is the first revision of MCP without connections.
	stateless = "2026-07-28"
	// maxMessage is the largest message in bytes, maxCalls the number of requests at a time.
	maxMessage = 32 << 20
	maxCalls   = 64
)

// Config configures a bridge. Only Header may be empty.
type Config struct {
	// URL is the address of the server's path for MCP.
	URL string
	// Header is added to each request.
	Header http.Header
	HTTP   *http.Client
	In     io.Reader
	Out    io.Writer
}

// Bridge passes messages on.
type Bridge struct {
	cfg   Config
	calls chan struct{}
	wg    sync.WaitGroup

	mu sync.Mutex // guards all below and cfg.Out
	// connection and version are those of a client that initializes a connection.
	connection, version string
	// running has the calls by their ids in JSON.
	running map[string]context.CancelFunc
}

// New returns a Bridge.
func New(cfg Config) *Bridge {
	return &Bridge{
		cfg: cfg, calls: make(chan struct{}, maxCalls), running: map[string]context.CancelFunc{},
	}
}

// message has the parts of a message that the bridge reads.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
	Result struct {
		Version string `json:"protocolVersion"`
	} `json:"result"`
}

// Run serves the client until its input ends and its calls have ended. The end of ctx cancels them.
func (b *Bridge) Run(ctx context.Context) error {
	lines, ended := make(chan []byte), make(chan error, 1)
	go func() { // it outlives Run if the input does not end
		ended <- read(ctx, b.cfg.In, lines)
	}()
	defer b.disconnect(context.WithoutCancel(ctx))
	defer b.wg.Wait()
	for {
		select {
		case text := <-lines:
			var m message
			if json.Unmarshal(text, &m) != nil {
				b.fail(nil, -32700, "the line is not a message of MCP")
				continue
			}
			b.pass(ctx, m, text)
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// read reads the lines that are not empty.
func read(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxMessage)
	for s.Scan() {
		text := bytes.Clone(bytes.TrimSpace(s.Bytes()))
		if len(text) == 0 {
			continue
		}
		select {
		case lines <- text:
		case <-ctx.Done():
			return nil
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fault.New(fault.TooLarge, "mcp.read", "a message has at most %d bytes", maxMessage)
	}
	return s.Err()
}

// disconnect ends the connection, which also cancels its calls. A failure has no consequence: the
// server ends unused connections.
func (b *Bridge) disconnect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	b.mu.Lock()
	id := b.connection
	b.mu.Unlock()
	if id == "" {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, b.cfg.URL, nil)
	if err != nil {
		return
	}
	maps.Copy(r.Header, b.cfg.Header)
	r.Header.Set("Mcp-Session-Id", id)
	if answer, err := b.cfg.HTTP.Do(r); err == nil {
		_ = answer.Body.Close()
	}
}

// pass passes one message on. Requests run at the same time, except the first one, whose answer
// changes the next messages.
func (b *Bridge) pass(ctx context.Context, m message, text []byte) {
	if m.Method == "notifications/cancelled" {
		b.mu.Lock()
		cancel := b.running[string(m.Params.RequestID)]
		b.mu.Unlock()
		if cancel != nil {
			cancel() // the end of its request cancels the call
			return
		}
	}
	if m.ID == nil || m.Method == "" || m.Method == "initialize" {
		b.send(ctx, m, text)
		return
	}
	call, cancel := context.WithCancel(ctx)
	if m.Params.Meta.Version >= stateless {
		b.mu.Lock()
		b.running[string(m.ID)] = cancel
		b.mu.Unlock()
	}
	b.calls <- struct{}{}
	b.wg.Go(func() {
		defer func() {
			cancel()
			b.mu.Lock()
			delete(b.running, string(m.ID))
			b.mu.Unlock()
			<-b.calls
		}()
		b.send(call, m, text)
	})
}

// send sends a message and writes the answers.
func (b *Bridge) send(ctx context.Context, m message, text []byte) {
	r, err := b.request(ctx, m, text)
	if err != nil {
		b.fail(m.ID, -32603, err.Error())
		return
	}
	answer, err := b.cfg.HTTP.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			b.fail(m.ID, -32603, "the server cannot be reached: "+err.Error())
		}
		return
	}
	defer answer.Body.Close()
	if m.Method == "initialize" {
		b.mu.Lock()
		b.connection = answer.Header.Get("Mcp-Session-Id")
		b.mu.Unlock()
	}
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	switch {
	case kind == "text/event-stream":
		b.events(ctx, m, answer.Body)
	case answer.StatusCode == http.StatusAccepted || answer.StatusCode == http.StatusNoContent:
	default:
		body, _ := io.ReadAll(io.LimitReader(answer.Body, maxMessage)) // a cut body is no message
		if answer.StatusCode < 300 || isAnswer(body, m.ID) {
			b.write(m, body)
			return
		}
		b.fail(m.ID, -32000, "the server answers "+answer.Status+": "+reason(body))
	}
}

// isAnswer reports whether the body of an error is an answer of MCP.
func isAnswer(body []byte, id json.RawMessage) bool {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
	}
	return json.Unmarshal(body, &m) == nil && m.Version != "" && bytes.Equal(m.ID, id)
}

// reason returns the message of an error of the server.
func reason(body []byte) string {
	var e struct{ Error fault.Public }
	if json.Unmarshal(body, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	return strings.TrimSpace(string(body[:min(len(body), 500)]))
}

func (b *Bridge) request(ctx context.Context, m message, text []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.cfg.URL, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, b.cfg.Header)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if v := m.Params.Meta.Version; v >= stateless {
		r.Header.Set("Mcp-Protocol-Version", v)
		r.Header.Set("Mcp-Method", m.Method)
		if name := cmp.Or(m.Params.Name, m.Params.URI); name != "" {
			r.Header.Set("Mcp-Name", name)
		}
		return r, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.connection != "" && m.Method != "initialize" {
		r.Header.Set("Mcp-Session-Id", b.connection)
		r.Header.Set("Mcp-Protocol-Version", b.version)
	}
	return r, nil
}

// events writes the messages of a stream. The answer to a request is the last one.
func (b *Bridge) events(ctx context.Context, m message, body io.Reader) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxMessage)
	answered := false
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok || len(bytes.TrimSpace(data)) == 0 {
			continue
		}
		answered = b.write(m, data) || answered
	}
	if !answered && ctx.Err() == nil {
		b.fail(m.ID, -32603, "the connection to the server was lost during the call; the session "+
			"is kept, so the call can be repeated")
	}
}

// write writes a message of the server. It reports whether it is the answer to m.
func (b *Bridge) write(m message, text []byte) bool {
	var out bytes.Buffer
	var got message
	if json.Compact(&out, text) != nil || json.Unmarshal(out.Bytes(), &got) != nil {
		return false
	}
	out.WriteByte('\n')
	b.mu.Lock()
	defer b.mu.Unlock()
	answer := got.Method == "" && bytes.Equal(got.ID, m.ID)
	if answer && m.Method == "initialize" {
		b.version = got.Result.Version
	}
	_, _ = b.cfg.Out.Write(out.Bytes()) // a client that has gone also ends the input
	return answer
}

// fail answers a request with an error. A notification has no answer.
func (b *Bridge) fail(id json.RawMessage, code int, text string) {
	if id == nil && code != -32700 {
		return
	}
	if id == nil {
		id = json.RawMessage("null")
	}
	out, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text},
	})
	if err != nil {
		return // an id that is no JSON has no answer
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.cfg.Out.Write(append(out, '\n'))
}
