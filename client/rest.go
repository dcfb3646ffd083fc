package client

import (
	"context"
	"net/http"

	"github.com/sandgate/sandgate/protocol"
)

// CreateSession creates a session.
func (c *Client) CreateSession(ctx context.Context,
	p protocol.SessionCreate,
) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.create_session", http.MethodPost,
		c.endpoint([]string{"v1", "sessions"}), p, &s)
	return s, err
}

// Session returns one session.
func (c *Client) Session(ctx context.Context, id string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.session", http.MethodGet, c.endpoint([]string{"v1", "sessions", id}),
		nil, &s)
	return s, err
}

// Sessions returns the caller's sessions, newest first.
func (c *Client) Sessions(ctx context.Context) ([]protocol.Session, error) {
	var l protocol.SessionList
	err := c.call(ctx, "client.sessions", http.MethodGet, c.endpoint([]string{"v1", "sessions"}),
		nil, &l)
	return l.Sessions, err
}

// DeleteSession ends a session and removes everything in it.
func (c *Client) DeleteSession(ctx context.Context, id string) error {
	return c.call(ctx, "client.delete_session", http.MethodDelete,
		c.endpoint([]string{"v1", "sessions", id}), nil, nil)
}

// HibernateSession writes a session to disk. It uses no memory until work in it resumes it.
func (c *Client) HibernateSession(ctx context.Context, id string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.hibernate", http.MethodPost,
		c.endpoint([]string{"v1", "sessions", id, "hibernate"}), nil, &s)
	return s, err
}

// ResumeSession resumes a paused or hibernated session, as any work in it would.
func (c *Client) ResumeSession(ctx context.Context, id string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.resume", http.MethodPost,
		c.endpoint([]string{"v1", "sessions", id, "resume"}), nil, &s)
	return s, err
}

// Status returns the state of the server. It needs the scope admin.
func (c *Client) Status(ctx context.Context) (protocol.NodeStatus, error) {
	var s struct {
		Node protocol.NodeStatus `json:"node"`
	}
	err := c.call(ctx, "client.status", http.MethodGet, c.endpoint([]string{"v1", "status"}), nil,
		&s)
	return s.Node, err
}

// Health checks that the gateway is up and reaches its node. It needs no token.
func (c *Client) Health(ctx context.Context) error {
	return c.call(ctx, "client.health", http.MethodGet, c.endpoint([]string{"healthz"}), nil, nil)
}
