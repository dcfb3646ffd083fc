package wire

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/nodes"
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

// EnsureSession returns the session with the name of the request, or else creates it. Callers at the
// same time get the same session.
func (c *Client) EnsureSession(ctx context.Context,
	p protocol.SessionCreate,
) (protocol.Ensured, error) {
	var s protocol.Ensured
	err := c.call(ctx, "client.ensure_session", http.MethodPut,
		c.endpoint([]string{"v1", "sessions", "by-name", p.Name}), p, &s)
	return s, err
}

// FindSession returns the session with a name.
func (c *Client) FindSession(ctx context.Context, name string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.find_session", http.MethodGet,
		c.endpoint([]string{"v1", "sessions", "by-name", name}), nil, &s)
	return s, err
}

// Session returns one session.
func (c *Client) Session(ctx context.Context, id string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.session", http.MethodGet, c.endpoint([]string{"v1", "sessions", id}),
		nil, &s)
	return s, err
}

// Sessions returns all of the caller's sessions, newest first.
func (c *Client) Sessions(ctx context.Context) ([]protocol.Session, error) {
	l, err := c.SelectSessions(ctx, protocol.SessionQuery{})
	return l.Sessions, err
}

// sessionPage is the number of sessions in a page of a list: a reply with more could be too large.
const sessionPage = 250

// SelectSessions returns all sessions that the query selects. It asks for one page after the other.
func (c *Client) SelectSessions(ctx context.Context, q protocol.SessionQuery) (
	all protocol.SessionList, err error,
) {
	if q.Limit == 0 {
		q.Limit = sessionPage
	}
	all.Sessions = []protocol.Session{}
	for {
		l, err := c.ListSessions(ctx, q)
		if err != nil {
			return protocol.SessionList{}, err
		}
		all.Sessions = append(all.Sessions, l.Sessions...)
		all.Missing = append(all.Missing, l.Missing...)
		slices.Sort(all.Missing)
		all.Missing = slices.Compact(all.Missing)
		if l.NextCursor == "" {
			return all, nil
		}
		q.Cursor = l.NextCursor
	}
}

// ListSessions returns one page of the sessions that the query selects.
func (c *Client) ListSessions(ctx context.Context, q protocol.SessionQuery) (
	protocol.SessionList, error,
) {
	values := url.Values{"label": q.Labels}
	for name, v := range map[string]string{
		"name": q.Name, "state": q.State, "template": q.Template, "order": q.Order,
		"cursor": q.Cursor, "fields": q.Fields,
	} {
		if v != "" {
			values.Set(name, v)
		}
	}
	if q.Descending {
		values.Set("descending", "true")
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	var l protocol.SessionList
	err := c.call(ctx, "client.sessions", http.MethodGet,
		c.endpoint([]string{"v1", "sessions"})+"?"+values.Encode(), nil, &l)
	return l, err
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

// SuspendSession writes a session to disk. Only ResumeSession resumes it.
func (c *Client) SuspendSession(ctx context.Context, id string) (protocol.Session, error) {
	var s protocol.Session
	err := c.call(ctx, "client.suspend", http.MethodPost,
		c.endpoint([]string{"v1", "sessions", id, "hibernate"}),
		protocol.SessionHibernate{Suspend: true}, &s)
	return s, err
}

// ResumeSession resumes a paused, hibernated or suspended session.
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

// Nodes lists the nodes of the server. It needs the scope admin.
func (c *Client) Nodes(ctx context.Context) (list nodes.NodeList, err error) {
	return list, c.call(ctx, "client.nodes", http.MethodGet, c.endpoint([]string{"v1", "nodes"}),
		nil, &list)
}

// Health checks that the gateway is up and reaches its node. It needs no token.
func (c *Client) Health(ctx context.Context) error {
	return c.call(ctx, "client.health", http.MethodGet, c.endpoint([]string{"healthz"}), nil, nil)
}
