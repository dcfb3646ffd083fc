package main

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/protocol/fault"
)

// bearer adds a token to requests.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connectTools connects to the tools of a server, as a host of MCP does.
func connectTools(ctx context.Context, s *e2e.Server) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	return c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer(s.Token)},
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
