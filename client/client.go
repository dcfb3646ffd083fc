// Package client is a Go client of Sandgate's public protocol, sandgate.v1:
// plain HTTP for sessions, files and one-shot runs, and one WebSocket for
// everything that streams. The WebSocket reconnects by itself; what a viewer
// reads has neither holes nor repetitions, whatever the network does, and
// where the server no longer has the output it says so in a gap record.
//
// All errors are *fault.Error; fault.KindOf tells what to do about one.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// Options are a client's settings. The zero value is good.
type Options struct {
	// Name is what the client calls itself; empty means "sandgate-go".
	Name string
	// HTTP sends the requests, the WebSocket's upgrade included. Its Timeout
	// must be 0. nil means a client with a dial timeout of 10 s.
	HTTP *http.Client
	// MinBackoff and MaxBackoff bound the pause before a reconnect, which
	// doubles with each failure and of which a random part is taken. 0 means
	// 250 ms and 10 s.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	// OnState is told when the WebSocket comes up (nil) and when it is lost
	// (why). It must not block.
	OnState func(err error)
	// OnSession is told what becomes of the sessions that are viewed over the
	// WebSocket: hibernated, resuming with how far it has come, running. It must
	// not block.
	OnSession func(protocol.StateChange)
}

// Client speaks to one server. It is safe for concurrent use and holds no
// connection of its own until Connect.
type Client struct {
	base  *url.URL
	token string
	opts  Options
}

// New returns a client of the server at baseURL, such as
// http://127.0.0.1:8080. A token in the URL's fragment (#token=…), as serve
// prints it, is taken when token is empty.
func New(baseURL, token string, opts Options) (*Client, error) {
	const op = "client.new"
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.Invalid(op, "url", "%q is not an address such as http://127.0.0.1:8080", redact(baseURL))
	}
	if token == "" {
		if values, err := url.ParseQuery(u.Fragment); err == nil {
			token = values.Get("token")
		}
	}
	if strings.ContainsAny(token, "\r\n \t") {
		return nil, fault.Invalid(op, "token", "a token has no spaces or line ends in it")
	}
	u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")}
	if opts.Name == "" {
		opts.Name = "sandgate-go"
	}
	if opts.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		opts.HTTP = &http.Client{Transport: transport}
	}
	if opts.MinBackoff <= 0 {
		opts.MinBackoff = 250 * time.Millisecond
	}
	if opts.MaxBackoff <= 0 {
		opts.MaxBackoff = 10 * time.Second
	}
	opts.MaxBackoff = max(opts.MaxBackoff, opts.MinBackoff)
	return &Client{base: u, token: token, opts: opts}, nil
}

// redact takes the fragment, where a token may be, out of a URL.
func redact(s string) string {
	s, _, _ = strings.Cut(s, "#")
	return s
}

// URL is the server's address, without the token.
func (c *Client) URL() string { return c.base.String() }

// endpoint builds the address of a path, whose segments are escaped, with
// query values in pairs.
func (c *Client) endpoint(segments []string, query ...string) string {
	u := *c.base
	var escaped strings.Builder
	escaped.WriteString(u.EscapedPath())
	for _, s := range segments {
		u.Path += "/" + s
		escaped.WriteString("/" + url.PathEscape(s))
	}
	u.RawPath = escaped.String()
	if len(query) > 0 {
		values := url.Values{}
		for i := 0; i+1 < len(query); i += 2 {
			values.Set(query[i], query[i+1])
		}
		u.RawQuery = values.Encode()
	}
	return u.String()
}

// maxReply is the size that a JSON answer may have, in bytes.
const maxReply = 8 << 20

// send sends one request. The caller closes the body. An answer that is no
// success is an error, and its body is closed.
func (c *Client) send(ctx context.Context, op, method, address, contentType string, body io.Reader) (*http.Response, error) {
	return c.sendWith(ctx, op, method, address, contentType, nil, body)
}

// sendWith is send with headers of its own.
func (c *Client) sendWith(ctx context.Context, op, method, address, contentType string, h http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, op, err)
	}
	for name, values := range h {
		req.Header[name] = values
	}
	c.authorize(req.Header)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, op, err)
	}
	if resp.StatusCode/100 != 2 {
		defer func() { _ = resp.Body.Close() }()
		return nil, responseError(op, resp)
	}
	return resp, nil
}

func (c *Client) authorize(h http.Header) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	h.Set("User-Agent", c.opts.Name)
}

// transportError says what a failed round trip means.
func (c *Client) transportError(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return &fault.Error{Kind: fault.KindOf(ctx.Err()), Op: op, Err: err}
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	return &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the server at " + c.URL() + " cannot be reached", Err: err}
}

// call sends in (nil for none) as JSON and reads out (nil for none).
func (c *Client) call(ctx context.Context, op, method, address string, in, out any) error {
	var body io.Reader
	contentType := ""
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fault.Wrap(fault.InvalidArgument, op, err)
		}
		body, contentType = bytes.NewReader(text), "application/json"
	}
	resp, err := c.send(ctx, op, method, address, contentType, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.decode(ctx, op, resp.Body, out)
}

// decode reads a JSON answer into out; nil throws it away.
func (c *Client) decode(ctx context.Context, op string, body io.Reader, out any) error {
	text, err := io.ReadAll(io.LimitReader(body, maxReply+1))
	if err != nil {
		return c.transportError(ctx, op, err)
	}
	if len(text) > maxReply {
		return fault.New(fault.TooLarge, op, "the answer has over %d bytes", maxReply)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return &fault.Error{Kind: fault.Malformed, Op: op, Message: "the answer is not what a Sandgate server sends; is the address right?", Err: err}
	}
	return nil
}

// responseError makes an error of an answer that is no success. The body is
// {"error": {kind, message, …}}; without one the status decides.
func responseError(op string, resp *http.Response) *fault.Error {
	var body struct {
		Error *fault.Public `json:"error"`
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if json.Unmarshal(text, &body) == nil && body.Error != nil && body.Error.Kind != "" {
		return body.Error.Err(op)
	}
	e := &fault.Error{Kind: kindOfStatus(resp.StatusCode), Op: op, Message: "the server answered " + resp.Status}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		e.RetryAfter = n
	}
	return e
}

func kindOfStatus(status int) fault.Kind {
	switch status {
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return fault.Unavailable
	}
	for _, row := range fault.Table() {
		if row.HTTP == status {
			return row.Kind
		}
	}
	switch {
	case status >= 500:
		return fault.Unavailable
	case status >= 400:
		return fault.InvalidArgument
	}
	return fault.Malformed
}
