// Package export sends files to object stores with addresses that others have signed. It reaches only
// the hosts that the operator has named, follows no redirect, and forwards few headers.
package export

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/protocol/fault"
)

// MaxFile is the largest file, in bytes.
const MaxFile = 256 << 20

// The bounds of a request.
const (
	maxURL     = 8 << 10
	maxHeaders = 32
	maxHeader  = 4 << 10
	dialLimit  = 10 * time.Second
	replyLimit = time.Minute
)

// Config says where files may go.
type Config struct {
	// Hosts are the hosts of stores, as in egress.allow.
	Hosts []string
	// Private are networks that are not public and that stores may be in.
	Private []netip.Prefix
}

// Exporter sends files. It is safe for concurrent use.
type Exporter struct {
	gate   *egress.Gate
	client *http.Client
}

// New returns an Exporter. Errors: InvalidArgument for a host that is not one.
func New(cfg Config) (*Exporter, error) {
	gate, err := egress.New(egress.Config{
		Allow: cfg.Hosts, Private: cfg.Private, Timeout: dialLimit,
	})
	if err != nil {
		return nil, err
	}
	x := &Exporter{gate: gate}
	x.client = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Transport: &http.Transport{
			Proxy: nil, DialContext: x.dial, DisableKeepAlives: true,
			TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: replyLimit,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return x, nil
}

func (x *Exporter) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	target, err := egress.ParseTarget(host, port)
	if err != nil {
		return nil, err
	}
	c, _, err := x.gate.Dial(ctx, egress.Rules{Allow: x.gate.Allowed()}, target)
	return c, err
}

// Check checks an address and headers. Errors: InvalidArgument, and PermissionDenied for a host that
// the operator has not named.
func (x *Exporter) Check(address string, headers map[string]string) error {
	const op = "onlyboxes.export"
	u, err := url.Parse(address)
	if err != nil || len(address) > maxURL || u.Scheme != "https" && u.Scheme != "http" ||
		u.Hostname() == "" || u.User != nil {
		return fault.Invalid(op, "signed_url", "it is an address of http or https")
	}
	port := 443
	if u.Scheme == "http" {
		port = 80
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return fault.Invalid(op, "signed_url", "it has no valid port")
		}
	}
	target, err := egress.ParseTarget(u.Hostname(), port)
	if err != nil {
		return fault.Invalid(op, "signed_url", "it has no valid host")
	}
	if !x.gate.Allowed().Allows(target) {
		return &fault.Error{
			Kind: fault.PermissionDenied, Op: op, Field: "signed_url",
			Message: "onlyboxes.export_hosts does not have the host " + target.String(),
		}
	}
	if len(headers) > maxHeaders {
		return fault.Invalid(op, "headers", "a request has at most %d headers", maxHeaders)
	}
	for name, value := range headers {
		if len(name)+len(value) > maxHeader || strings.ContainsAny(value, "\r\n\x00") {
			return fault.Invalid(op, "headers", "%.80q is no header", name)
		}
	}
	return nil
}

// forwarded reports whether a header reaches the store.
func forwarded(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-amz-") || name == "content-type" || name == "content-md5"
}

// Export sends a file of a size to an address that Check accepts. Errors: Unavailable if the store refuses
// it or cannot be reached.
func (x *Exporter) Export(ctx context.Context, address string, headers map[string]string,
	content io.Reader, size int64, mime string,
) error {
	const op = "onlyboxes.export"
	q, err := http.NewRequestWithContext(ctx, http.MethodPut, address, content)
	if err != nil {
		return fault.Invalid(op, "signed_url", "it is no address")
	}
	q.ContentLength = size
	if size == 0 {
		q.Body = http.NoBody
	}
	q.Header.Set("Content-Type", mime)
	for name, value := range headers {
		if forwarded(name) {
			q.Header.Set(name, value)
		}
	}
	res, err := x.client.Do(q)
	if err != nil {
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, Err: err,
			Message: "the store cannot be reached, or the file has changed",
		}
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		return fault.New(fault.Unavailable, op, "the store answers with the status %d",
			res.StatusCode)
	}
	return nil
}
