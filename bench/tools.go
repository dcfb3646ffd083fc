package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/protocol/fault"
)

// toolsWay is one way to call the tool run_code.
type toolsWay struct {
	name string
	call func() (float64, error)
}

// toolWays returns the ways to call a tool: with the package of the protocol's project, with plain
// requests, and with the package at a responder that does nothing. end ends their connections.
func toolWays(ctx context.Context, s *e2e.Server) (ways []toolsWay, end func(), err error) {
	tools, err := connectTools(ctx, s.URL, s.Token)
	if err != nil {
		return nil, nil, err
	}
	idle := httptest.NewServer(http.HandlerFunc(answerToolAtOnce))
	alone, err := connectTools(ctx, idle.URL, "")
	if err != nil {
		idle.Close()
		_ = tools.Close()
		return nil, nil, err
	}
	return []toolsWay{
		{"run_code of 1, MCP", func() (float64, error) { return runTool(ctx, tools) }},
		{"run_code of 1, MCP, plain request", func() (float64, error) {
			return postTool(ctx, s)
		}},
		{"run_code, the client's package alone", func() (float64, error) {
			return runTool(ctx, alone)
		}},
	}, func() {
		_ = alone.Close()
		idle.Close()
		_ = tools.Close()
	}, nil
}

// bearer adds a token to requests.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connectTools connects to the tools of a server, as a host of MCP does.
func connectTools(ctx context.Context, url, token string) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	return c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)},
		DisableStandaloneSSE: true,
	}, nil)
}

// runTool runs a cell with the tool run_code, and returns the time in milliseconds.
func runTool(ctx context.Context, tools *mcp.ClientSession) (float64, error) {
	begin := time.Now()
	r, err := tools.CallTool(ctx, &mcp.CallToolParams{
		Name: "run_code", Arguments: map[string]any{"code": "1"},
	})
	took := ms(time.Since(begin))
	if err == nil && r.IsError {
		err = fault.New(fault.Internal, "bench.tool", "run_code failed")
	}
	return took, err
}

// toolRequest is a call of run_code in the newest revision of the protocol, which needs no connection.
const toolRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_code",` +
	`"arguments":{"code":"1"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`

// postTool runs a cell with the tool run_code by a plain request.
func postTool(ctx context.Context, s *e2e.Server) (float64, error) {
	begin := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/mcp",
		strings.NewReader(toolRequest))
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "run_code",
		"X-Sandgate-Conversation": "plain",
	} {
		r.Header.Set(name, value)
	}
	answer, err := bearer(s.Token).RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	took := ms(time.Since(begin))
	if err == nil && !bytes.Contains(text, []byte(`"status":"ok"`)) {
		err = fault.New(fault.Internal, "bench.tool", "run_code: %d %s", answer.StatusCode, text)
	}
	return took, err
}

// answerToolAtOnce answers as a server whose tool run_code does nothing.
func answerToolAtOnce(w http.ResponseWriter, r *http.Request) {
	var p struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&p) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if len(p.ID) == 0 { // a notification
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := `{"content":[{"type":"text","text":"1"}],"structuredContent":{"session_id":"s_1",` +
		`"status":"ok","stdout":"","stderr":"","result":"1\n","files":[]}}`
	if p.Method == "initialize" {
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` +
			`"serverInfo":{"name":"idle","version":"1"}}`
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Mcp-Session-Id", "1")
	_, _ = fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n",
		p.ID, result)
}
