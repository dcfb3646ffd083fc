package ports

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Target is the port of a session that a request addresses.
type Target struct {
	Session string
	Port    int
	// Link describes the preview link in the host name; nil without one.
	Link *Link
	// Valid reports whether the credentials of the request are still valid, until Until; a zero
	// Until means forever. Connections are cut once they are not. nil means always.
	Valid func() bool
	Until time.Time
	// Prefix is the gateway's part of the path. It is empty if the port has its own host name.
	Prefix string
	// OwnHost is set if the request used that host name.
	OwnHost bool
	// BearerUsed is set if the request's Authorization was for the gateway and
	// not for the program.
	BearerUsed bool
	// OwnFrames is set if only the port's own pages may show the response in a frame.
	OwnFrames bool
	// TicketUsed is set if the request had a ticket in its query.
	TicketUsed bool
}

// Key names the port in tickets and cookies.
func (t *Target) Key() string { return t.Session + ":" + strconv.Itoa(t.Port) }

type targetKey struct{}

// WithTarget returns a context for requests to the port.
func WithTarget(ctx context.Context, t *Target) context.Context {
	return context.WithValue(ctx, targetKey{}, t)
}

func targetOf(r *http.Request) (*Target, error) {
	if t, ok := r.Context().Value(targetKey{}).(*Target); ok {
		return t, nil
	}
	return nil, fault.New(fault.Internal, "ports.target", "the request names no port")
}

// TargetOfPath returns the port that a path names by its session and number.
func TargetOfPath(session, port string) (*Target, error) {
	const op = "ports.target"
	number, ok := portNumber(port)
	switch {
	case !surface.ValidID(session):
		return nil, fault.New(fault.NotFound, op, "there is no such session")
	case !ok:
		return nil, fault.Invalid(op, "port", "a port is a number from 1 to 65535")
	}
	prefix := "/v1/sessions/" + session + "/ports/" + strconv.Itoa(number)
	return &Target{Session: session, Port: number, Prefix: prefix}, nil
}

func portNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && n > 0 && s[0] != '0'
}

// Domain is the domain of the host names of ports: <port>-<session>.<host>. The zero value means
// that ports have no host names.
type Domain struct {
	Scheme, Host, Port string
}

// ParseDomain reads a domain such as ports.example.org. A scheme may precede it
// and a port may follow.
func ParseDomain(s string) (Domain, error) {
	d := Domain{Scheme: "http"}
	if s == "" {
		return Domain{}, nil
	}
	rest := strings.ToLower(s)
	if scheme, host, ok := strings.Cut(rest, "://"); ok {
		d.Scheme, rest = scheme, host
	}
	d.Host, d.Port, _ = strings.Cut(rest, ":")
	_, err := strconv.ParseUint(d.Port, 10, 16)
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789.-"
	if d.Scheme != "http" && d.Scheme != "https" || d.Host == "" ||
		strings.Trim(d.Host, letters) != "" || d.Port != "" && err != nil {
		return d, fault.Invalid("ports.domain", "ports_domain",
			"%q is not a domain such as https://ports.example.org", s)
	}
	return d, nil
}

// sessionPrefix begins every session id. A host name cannot contain it.
const sessionPrefix = "s_"

// Target returns the port that a Host header names.
func (d Domain) Target(host string) (*Target, bool) {
	if d.Host == "" {
		return nil, false
	}
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	label, ok := strings.CutSuffix(name, "."+d.Host)
	number, id, dash := strings.Cut(label, "-")
	port, valid := portNumber(number)
	if !ok || !dash || !valid || !surface.ValidID(id) || strings.Contains(id, "_") {
		return nil, false
	}
	return &Target{Session: sessionPrefix + id, Port: port, OwnHost: true}, true
}

// linkPrefix begins the host name of a preview link. No port number begins like it.
const linkPrefix = "l-"

// Link returns the id of the preview link that a Host header names.
func (d Domain) Link(host string) (id string, ok bool) {
	if d.Host == "" {
		return "", false
	}
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	label, ok := strings.CutSuffix(name, "."+d.Host)
	id, prefix := strings.CutPrefix(label, linkPrefix)
	return id, ok && prefix && surface.ValidID(id)
}

// LinkURL returns the address of a preview link for a browser that reached the gateway by host. It
// is empty if ports have no host names there.
func (d Domain) LinkURL(id, host string) string { return d.address(linkPrefix+id, host) }

// URL returns the address of a port for a browser that reached the gateway by
// host. It is empty if the port has no host name there.
func (d Domain) URL(session string, port int, host string) string {
	id, ok := strings.CutPrefix(session, sessionPrefix)
	if !ok || strings.ContainsAny(id, "_-") {
		return ""
	}
	return d.address(strconv.Itoa(port)+"-"+id, host)
}

// Source returns the host names of all ports and preview links as a source of a content policy, for
// a browser that reached the gateway by host. It is empty if they have none there.
func (d Domain) Source(host string) string {
	source := strings.TrimSuffix(d.address("*", host), "/")
	if strings.ContainsAny(source, "; ,'\"") { // a port that no browser sends would be policy
		return ""
	}
	return source
}

func (d Domain) address(label, host string) string {
	if d.Host == "" {
		return ""
	}
	name, at := host, d.Port
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name = host[:i]
		if at == "" && d.Scheme == "http" {
			at = host[i+1:]
		}
	}
	if d.Host == "localhost" && !slices.Contains([]string{"localhost", "127.0.0.1", "[::1]"},
		name) {
		return "" // on another machine the address would name the browser's machine
	}
	if at != "" {
		at = ":" + at
	}
	return d.Scheme + "://" + label + "." + d.Host + at + "/"
}

// TicketParam is the name of the query parameter that carries a ticket to a
// port, once.
const TicketParam = "sandgate_ticket"

// uri returns the request target for the program: the path without the gateway's prefix, and the
// query without the ticket.
func (t *Target) uri(requestURI string) string {
	path, query, _ := strings.Cut(requestURI, "?")
	path = strings.TrimPrefix(path, t.Prefix)
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	if query = withoutTicket(query); query != "" {
		return path + "?" + query
	}
	return path
}

func withoutTicket(query string) string {
	var others []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if part != "" && name != TicketParam {
			others = append(others, part)
		}
	}
	return strings.Join(others, "&")
}
