package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// previewLife is how long a preview link is valid, and previewWait how long a visitor waits for a
// program to listen, both in seconds.
const (
	previewLife = 24 * 3600
	previewWait = 30
)

// previewPort creates an address for a port.
func previewPort(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Port    int    `json:"port"`
		Public  bool   `json:"public"`
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if p.Port < 1 || p.Port > 65535 {
		return nil, fault.Invalid("mcp.preview_port", "port", "a port is from 1 to 65535")
	}
	s, err := c.existing(ctx, p.Session)
	if err != nil {
		return nil, err
	}
	create := protocol.PortLinkCreate{
		Session: s.id, Port: p.Port, Visibility: protocol.VisibilityPrivate,
		ExpiresSeconds: previewLife, WaitSeconds: previewWait, Label: name,
	}
	visitors := "people who may use the sessions of this account"
	if p.Public {
		create.Visibility, visitors = protocol.VisibilityPublic, "everybody who has the address"
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	made, err := c.cfg.Preview(ctx, c.who, c.request.Host, create)
	if err != nil {
		return nil, err
	}
	out := answer(fmt.Sprintf("%s shows port %d for 24 hours, to %s.", made.URL, p.Port, visitors),
		map[string]any{"url": made.URL, "port": p.Port, "expires_ms": made.ExpiresMS})
	out.Content = append(out.Content, &sdk.ResourceLink{
		URI: made.URL, Name: fmt.Sprintf("port %d", p.Port), MIMEType: "text/html",
	})
	return out, nil
}

// snapshotLife is how long a snapshot is kept, in seconds.
const snapshotLife = 7 * 24 * 3600

// forkSession copies a session, or starts one from a snapshot, under another name.
func forkSession(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		New      string `json:"new_session"`
		Session  string `json:"session"`
		Snapshot string `json:"snapshot"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := required("new_session", p.New); err != nil {
		return nil, err
	}
	if p.Snapshot != "" && p.Session != "" {
		return nil, fault.Invalid("mcp.fork_session", "snapshot",
			"give either a session or a snapshot")
	}
	var made protocol.Session
	origin := "a copy"
	if p.Snapshot != "" {
		origin = fmt.Sprintf("a copy of the snapshot %q", p.Snapshot)
		var err error
		if made, err = c.startSaved(ctx, p.Snapshot, p.New); err != nil {
			return nil, err
		}
	} else {
		s, err := c.existing(ctx, p.Session)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
		defer cancel()
		if made, err = c.sessions.Fork(ctx, c.who, s.id, c.at(p.New), c.policy); err != nil {
			return nil, err
		}
	}
	return answer(fmt.Sprintf("The session %q is %s with all variables, files and processes. "+
		"Use it with the argument session.", p.New, origin),
		map[string]any{"session": p.New, "session_id": made.ID}), nil
}

// startSaved starts a session from a snapshot.
func (c *call) startSaved(ctx context.Context, snapshot, session string) (protocol.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	made, err := c.sessions.Restore(ctx, c.who, snapshot, c.at(session), c.policy)
	if fault.Is(err, fault.NotFound) {
		err = &fault.Error{
			Kind: fault.NotFound, Op: "mcp.snapshot", Field: "snapshot", Message: fmt.Sprintf(
				"the conversation has no snapshot %q; snapshot_session creates it", snapshot),
		}
	}
	return made, err
}

// snapshotSession saves the state of a session.
func snapshotSession(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Snapshot string `json:"snapshot"`
		Session  string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := required("snapshot", p.Snapshot); err != nil {
		return nil, err
	}
	s, err := c.existing(ctx, p.Session)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	made, err := c.sessions.TakeSnapshot(ctx, c.who, s.id, c.place, p.Snapshot, snapshotLife)
	if fault.Is(err, fault.Conflict) {
		err = &fault.Error{
			Kind: fault.Conflict, Op: "mcp.snapshot", Field: "snapshot", Message: fmt.Sprintf(
				"the conversation has a snapshot %q; choose another name", p.Snapshot),
		}
	}
	if err != nil {
		return nil, err
	}
	return answer(fmt.Sprintf("The snapshot %q has all variables, files and processes. It is kept "+
		"for 7 days, also if the session is closed. fork_session starts sessions from it.",
		p.Snapshot), map[string]any{
		"snapshot": p.Snapshot, "snapshot_id": made.ID, "expires_ms": made.ExpiresMS,
	}), nil
}

// closeSession deletes a session.
func closeSession(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	s, err := c.existing(ctx, p.Session)
	if err != nil {
		return nil, err
	}
	if err := c.node(ctx, protocol.OpSessionDelete, protocol.SessionRef{Session: s.id},
		nil); err != nil {
		return nil, err
	}
	return answer("The session is deleted, with its variables, files and processes.",
		map[string]any{"session": p.Session, "session_id": s.id}), nil
}
