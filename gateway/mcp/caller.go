package mcp

import (
	"context"
	"net/http"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The headers of a request, beside those that the settings name. The first one belongs to the
// protocol. Hosts choose the others in their configuration.
const (
	headerConnection = "Mcp-Session-Id"
	headerTemplate   = "X-Sandgate-Template"
	headerNetwork    = "X-Sandgate-Network"
)

// name is the surface's name in package conversation.
const name = surfaces.MCP

// caller is the program that makes a call, and its conversation.
type caller struct {
	request *http.Request
	who     noderpc.Principal
	place   conversation.Place // without a session
	policy  conversation.Policy
}

// callerKey is the key of a request in the extra data of a token.
const callerKey = "request"

// withCaller returns the request in the form that the library passes on to tools. The library reads
// a bearer token, which the gateway has checked already, and which no tool may see.
func withCaller(r *http.Request) *http.Request {
	out := r.Clone(context.WithValue(r.Context(), requestKey{}, r))
	out.Header.Set("Authorization", "Bearer -")
	out.Header.Del("Cookie")
	return out
}

type requestKey struct{}

// tokenInfo returns the data that the library keeps about the caller. It lets a connection be used
// by the caller that began it, and by no other.
func tokenInfo(ctx context.Context, _ string, _ *http.Request) (*sdkauth.TokenInfo, error) {
	r, ok := ctx.Value(requestKey{}).(*http.Request)
	if !ok {
		return nil, sdkauth.ErrInvalidToken
	}
	return &sdkauth.TokenInfo{
		UserID: userID(surface.CallOf(r).Who), Extra: map[string]any{callerKey: r},
	}, nil
}

// userID names a principal.
func userID(who noderpc.Principal) string { return who.Tenant + "\x00" + who.Subject }

// callerOf returns the caller of a tool.
func (s *Surface) callerOf(req *sdk.CallToolRequest) (caller, error) {
	var r *http.Request
	if x := req.Extra; x != nil && x.TokenInfo != nil {
		r, _ = x.TokenInfo.Extra[callerKey].(*http.Request)
	}
	if r == nil {
		return caller{}, fault.New(fault.Internal, "mcp.caller", "a call without a request")
	}
	c := caller{
		request: r, who: surface.CallOf(r).Who,
		place:  conversation.PlaceOf(r, name, s.cfg.Settings),
		policy: conversation.PolicyOf(s.cfg.Settings),
	}
	if t := r.Header.Get(headerTemplate); t != "" {
		c.policy.Template = t
	}
	if c.place.Conversation == "" {
		// Any gateway finds the session of a connection, so it does not have to know it.
		c.place.Conversation = r.Header.Get(headerConnection)
	}
	if err := c.place.Check(); err != nil {
		return c, err
	}
	switch r.Header.Get(headerNetwork) {
	case "":
	case "off":
		c.policy.Network = nil
	case "on":
		c.policy.Network = new(protocol.Network)
	default:
		return c, fault.Invalid("mcp.caller", headerNetwork, "it is on or off")
	}
	return c, nil
}
