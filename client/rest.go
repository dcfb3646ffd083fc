package client

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// CreateSession makes a session.
func (c *Client) CreateSession(ctx context.Context, p protocol.SessionCreate) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.create_session", http.MethodPost, c.endpoint([]string{"v1", "sessions"}), p, &s)
	return s, err
}

// Session returns one session.
func (c *Client) Session(ctx context.Context, id string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.session", http.MethodGet, c.endpoint([]string{"v1", "sessions", id}), nil, &s)
	return s, err
}

// Sessions returns the caller's sessions, newest first.
func (c *Client) Sessions(ctx context.Context) ([]protocol.Session, error) {
	var l protocol.SessionList
	err := c.call(ctx, "client.sessions", http.MethodGet, c.endpoint([]string{"v1", "sessions"}), nil, &l)
	return l.Sessions, err
}

// DeleteSession ends a session and removes all that is in it.
func (c *Client) DeleteSession(ctx context.Context, id string) error {
	return c.call(ctx, "client.delete_session", http.MethodDelete, c.endpoint([]string{"v1", "sessions", id}), nil, nil)
}

// HibernateSession writes a session to disk: it takes no memory until work
// wakes it.
func (c *Client) HibernateSession(ctx context.Context, id string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.hibernate", http.MethodPost, c.endpoint([]string{"v1", "sessions", id, "hibernate"}), nil, &s)
	return s, err
}

// ResumeSession wakes a paused or hibernated session, as any work in it would.
func (c *Client) ResumeSession(ctx context.Context, id string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.resume", http.MethodPost, c.endpoint([]string{"v1", "sessions", id, "resume"}), nil, &s)
	return s, err
}

// Upload writes a file in a session, whole or not at all: its content appears
// under path once all of r has arrived. mode is the file's permission bits; 0
// means 0644. Paths are relative to the user's home unless absolute.
func (c *Client) Upload(ctx context.Context, session, path string, mode uint32, r io.Reader) (protocol.File, error) {
	const op = "client.upload"
	var f protocol.File
	resp, err := c.send(ctx, op, http.MethodPut, c.fileEndpoint(session, path, mode), "application/octet-stream", io.NopCloser(r))
	if err != nil {
		return f, err
	}
	defer func() { _ = resp.Body.Close() }()
	return f, c.decode(ctx, op, resp.Body, &f)
}

// fileEndpoint is the address of a file. The slashes of its path are kept, but
// for the first of an absolute path, which a proxy might join with the one
// before it.
func (c *Client) fileEndpoint(session, path string, mode uint32) string {
	segments := append([]string{"v1", "sessions", session, "files"}, strings.Split(strings.TrimPrefix(path, "/"), "/")...)
	if strings.HasPrefix(path, "/") {
		segments[4] = "/" + segments[4]
	}
	if mode == 0 {
		return c.endpoint(segments)
	}
	return c.endpoint(segments, "mode", strconv.FormatUint(uint64(mode), 8))
}

// Download reads a file in a session. The caller closes it. A read that ends
// before the file does is an error, never a short file.
func (c *Client) Download(ctx context.Context, session, path string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, "client.download", http.MethodGet, c.fileEndpoint(session, path, 0), "", nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Status is what the server says of itself; it needs the operator's scope.
func (c *Client) Status(ctx context.Context) (protocol.NodeStatus, error) {
	var s struct {
		Node protocol.NodeStatus `json:"node"`
	}
	err := c.call(ctx, "client.status", http.MethodGet, c.endpoint([]string{"v1", "status"}), nil, &s)
	return s.Node, err
}

// Health asks whether the gateway is up and reaches its node. It needs no
// token.
func (c *Client) Health(ctx context.Context) error {
	return c.call(ctx, "client.health", http.MethodGet, c.endpoint([]string{"healthz"}), nil, nil)
}
