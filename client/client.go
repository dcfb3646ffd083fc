// Package client runs code in sandboxes of a Sandgate server. A Client is one server; a Sandbox is
// one session with its kernels, files and programs. The verbs are those of the clients for Python
// and TypeScript.
//
//	c, err := client.FromEnv()
//	s, err := c.Sandbox(ctx, client.SandboxOptions{})
//	defer s.Close()
//	r, err := s.Run(ctx, "6 * 7")
//	fmt.Println(r.Text())
//
// Most requests use one WebSocket, which reconnects by itself. Output continues at the byte where it
// stopped. Code runs once, and requests that create something are repeated with an idempotency key
// after a lost connection.
//
// Errors of the server and of the connection are *fault.Error; fault.KindOf returns the kind of one.
package client

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Options are a client's settings. The zero value means the environment and the defaults.
type Options struct {
	// URL is the server's address. Empty means SANDGATE_URL or else the address in the profile that
	// sandgate serve writes.
	URL string
	// Token is the token. Empty means the fragment of the address, SANDGATE_TOKEN or the profile.
	Token string
	// Ticket is a ticket for one WebSocket, instead of a token: see Tickets.Create. Files and other
	// requests over HTTP are refused.
	Ticket string
	// Name is the client's name in the server's logs; empty means "sandgate-go".
	Name string
	// HTTP sends the requests, including the WebSocket's upgrade. Its Timeout must be 0. nil means
	// a client of its own.
	HTTP *http.Client
	// MinBackoff and MaxBackoff bound the pause before a reconnection. 0 means 250 ms and 10 s.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	// ConnectTimeout bounds the first connection, which is tried again meanwhile, so that a wrong
	// address is noticed; 0 means 10 s. A lost connection is tried again without a bound.
	ConnectTimeout time.Duration
	// Retries is how often a request that creates something is repeated after a lost connection; 0
	// means 3, -1 never.
	Retries int
	// OnState is called with nil when the WebSocket is connected, and with the reason when it is
	// lost. It must not block.
	OnState func(err error)
	// OnSession is called when the state of a session in use changes: hibernated, resuming with its
	// progress, running. It must not block.
	OnSession func(protocol.StateChange)
}

// Client is a client of one server. It connects with the first request, and is safe for concurrent
// use.
type Client struct {
	// Volumes are folders that outlive sessions.
	Volumes *Volumes
	// Snapshots are saved states of sessions.
	Snapshots *Snapshots
	// Notebooks are the copies of notebooks that the server keeps.
	Notebooks *Notebooks
	// Templates are sandboxes with packages, files and code.
	Templates *Templates
	// Keys are API keys.
	Keys *Keys
	// Tenants are tenants and their quotas.
	Tenants *Tenants
	// Tickets are tickets for browsers and run buttons.
	Tickets *Tickets
	// Webhooks are addresses that get events.
	Webhooks *Webhooks

	http           *wire.Client
	retries        int
	connectTimeout time.Duration
	operations     map[string]protocol.Operation

	connecting chan struct{} // capacity 1: held while Connect works

	mu     sync.Mutex // guards the fields below
	conn   *wire.Conn
	closed bool
}

// FromEnv returns a client of the server that the environment or the profile names: see Options.
func FromEnv() (*Client, error) { return New(Options{}) }

// New returns a client. It connects with the first request.
//
// Errors: InvalidArgument.
func New(o Options) (*Client, error) {
	address, token, err := where(o)
	if err != nil {
		return nil, err
	}
	low, err := wire.New(address, token, wire.Options{
		Name: o.Name, Ticket: o.Ticket, HTTP: o.HTTP,
		MinBackoff: o.MinBackoff, MaxBackoff: o.MaxBackoff,
		OnState: o.OnState, OnSession: o.OnSession,
	})
	if err != nil {
		return nil, err
	}
	c := &Client{
		http: low, retries: o.Retries, operations: map[string]protocol.Operation{},
		connecting: make(chan struct{}, 1), connectTimeout: o.ConnectTimeout,
	}
	if o.ConnectTimeout <= 0 {
		c.connectTimeout = 10 * time.Second
	}
	if o.Retries == 0 {
		c.retries = 3
	}
	for _, op := range protocol.Operations() {
		c.operations[op.Name] = op
	}
	c.Volumes, c.Snapshots, c.Templates = &Volumes{c}, &Snapshots{c}, &Templates{c}
	c.Keys, c.Tenants, c.Tickets = &Keys{c}, &Tenants{c}, &Tickets{c}
	c.Webhooks, c.Notebooks = &Webhooks{c}, &Notebooks{c}
	return c, nil
}

// URL returns the server's address, without the token.
func (c *Client) URL() string { return c.http.URL() }

// Connect opens the WebSocket now, and not when it is first needed.
func (c *Client) Connect(ctx context.Context) error {
	_, err := c.connect(ctx)
	return err
}

// connect returns the connection, which it opens if there is none.
func (c *Client) connect(ctx context.Context) (*wire.Conn, error) {
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "client.connect", ctx.Err())
	}
	c.mu.Lock()
	conn, closed := c.conn, c.closed
	c.mu.Unlock()
	if closed {
		return nil, fault.New(fault.Canceled, "client.connect", "the client was closed")
	}
	if conn != nil && conn.Err() == nil {
		return conn, nil
	}
	within, cancel := context.WithTimeout(ctx, c.connectTimeout)
	defer cancel()
	conn, err := c.http.Connect(within)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	return conn, nil
}

// Close ends the connection. Sessions stay.
func (c *Client) Close() error {
	c.connecting <- struct{}{}
	defer func() { <-c.connecting }()
	c.mu.Lock()
	conn := c.conn
	c.conn, c.closed = nil, true
	c.mu.Unlock()
	if conn == nil {
		return nil
	}
	return conn.Close()
}

// Reconnects returns how many times the WebSocket has reconnected.
func (c *Client) Reconnects() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return 0
	}
	return c.conn.Reconnects()
}

// Describe returns the server's languages and limits, and the scopes of these credentials.
func (c *Client) Describe(ctx context.Context) (wire.Description, error) {
	return c.http.Describe(ctx)
}

// Status returns the state of the server. It needs the scope admin.
func (c *Client) Status(ctx context.Context) (protocol.NodeStatus, error) {
	return c.http.Status(ctx)
}

// maxMetrics is the largest size of the metrics, in bytes.
const maxMetrics = 64 << 20

// Metrics returns the metrics in the text format of Prometheus. It needs the scope metrics.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	resp, err := c.http.Send(ctx, wire.HTTPRequest{
		Op: "client.metrics", Method: http.MethodGet, Path: []string{"metrics"},
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	return string(text), lost("client.metrics", err)
}

// lost returns the error of a body that ended early.
func lost(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, Message: "the connection was lost", Err: err,
	}
}

// special returns the method for an operation whose request carries more than JSON parameters, or
// other ones over HTTP than between gateway and node.
func special(op string) string {
	return map[string]string{
		protocol.OpFileRead: "Files.Read", protocol.OpFileWrite: "Files.Write",
		protocol.OpTreeRead: "Files.ReadTree", protocol.OpTreeWrite: "Files.WriteTree",
		protocol.OpPortOpen: "Sandbox.DialPort", protocol.OpTemplateBuild: "Templates.Build",
		protocol.OpTenantQuota: "Tenants.SetQuota", protocol.OpLinkCreate: "Sandbox.Share",
	}[op]
}

// Call performs an operation of the protocol by its name, with the types of its row in
// protocol.Operations. result may be nil. Operations on attached channels, and those with content
// such as files, have only methods with types.
func (c *Client) Call(ctx context.Context, op string, params, result any) error {
	o, ok := c.operations[op]
	if !ok || o.Transport == protocol.Internal {
		return fault.New(fault.Unsupported, "client.call", "there is no operation %q", op)
	}
	if o.Channel != protocol.NoChannel {
		return fault.New(fault.Unsupported, "client.call",
			"%s works on an attached channel: use the methods of Kernel, Process and Terminal", op)
	}
	if method := special(op); method != "" {
		return fault.New(fault.Unsupported, "client.call", "%s has the method %s", op, method)
	}
	if o.Transport == protocol.HTTPOnly {
		return c.overHTTP(ctx, o, params, result)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	key := ""
	if o.Creates {
		key = wire.NewKey()
	}
	return conn.Call(ctx, op, params, result, repeatable(o), key)
}

// repeatable reports whether a repeat of an operation has no second effect.
func repeatable(o protocol.Operation) bool {
	return o.Effects == protocol.Reads || slices.Contains([]string{
		protocol.OpSessionEnsure, protocol.OpChannelOpen, protocol.OpResume, protocol.OpServiceSet,
		protocol.OpSessionUpdate, protocol.OpSessionKeepalive,
	}, o.Name)
}

// overHTTP performs an operation by the first of its routes.
func (c *Client) overHTTP(ctx context.Context, o protocol.Operation, params, result any) error {
	r, err := request(o, params)
	if err != nil {
		return err
	}
	if o.Creates {
		return c.postKeyed(ctx, r, result)
	}
	return c.http.Decode(ctx, r, result)
}

// retryPause is the longest pause before the first repeat of a request over HTTP.
const retryPause = 250 * time.Millisecond

// postKeyed sends a request that creates something with an idempotency key.
func (c *Client) postKeyed(ctx context.Context, r wire.HTTPRequest, result any) error {
	r = withKey(r)
	return c.repeat(ctx, r.Op, func() error { return c.http.Decode(ctx, r, result) })
}

// withKey adds a new idempotency key to a request.
func withKey(r wire.HTTPRequest) wire.HTTPRequest {
	h := r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set(wire.KeyHeader, wire.NewKey())
	r.Header = h
	return r
}

// repeat sends a request until the server can be reached, or has failed too often.
func (c *Client) repeat(ctx context.Context, op string, send func() error) error {
	longest := retryPause
	for left := c.retries; ; left-- {
		err := send()
		if !fault.Is(err, fault.Unavailable) || left <= 0 {
			return err
		}
		if pause(ctx, op, rand.N(longest)) != nil {
			return err
		}
		longest *= 2
	}
}

// request returns the request of an operation: fields of the parameters go into the path, and the
// others into the query or the body.
func request(o protocol.Operation, params any) (wire.HTTPRequest, error) {
	route := o.REST[0]
	r := wire.HTTPRequest{Op: "client." + o.Name, Method: route.Method}
	fields := map[string]json.RawMessage{}
	if params != nil {
		text, err := json.Marshal(params)
		if err == nil {
			err = json.Unmarshal(text, &fields)
		}
		if err != nil {
			return r, fault.Wrap(fault.InvalidArgument, r.Op, err)
		}
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(route.Path, "/"), "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			if segment = plain(fields[name]); segment == "" {
				return r, fault.Invalid(r.Op, name, "is empty")
			}
			delete(fields, name)
		}
		r.Path = append(r.Path, segment)
	}
	switch {
	case route.Method == http.MethodGet || route.Method == http.MethodDelete:
		r.Query = map[string][]string{}
		for name, value := range fields {
			r.Query.Set(name, plain(value))
		}
	case len(fields) > 0 || route.Body == protocol.RequiredBody:
		r.JSON = fields
	}
	return r, nil
}

// plain returns a JSON value as it is written in an address.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
