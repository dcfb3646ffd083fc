package sandbox

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The ports of a sandbox that this server answers itself.
const (
	EnvdPort        = 49983
	InterpreterPort = 49999
)

// Target is the port of a sandbox that a request is for.
type Target struct {
	// ID is the sandbox's id, and Session that of its session.
	ID      string
	Session string
	Port    int
	// The principal Who makes the request. It is the owner of the session.
	Who noderpc.Principal
	// Token is set if the request has the sandbox's access token.
	Token bool
	// Recent is set if Resolve has used an answer of an earlier request. The sandbox may have ended
	// since, which an operation then reports.
	Recent bool
	// AccessToken is the sandbox's access token, which signs the addresses of files.
	AccessToken string
	Options     e2bname.Options
	// OwnHost is set if the request named the port in its host.
	OwnHost bool
}

type targetKey struct{}

// WithTarget returns a context for requests to the target.
func WithTarget(ctx context.Context, t *Target) context.Context {
	return context.WithValue(ctx, targetKey{}, t)
}

// TargetOf returns the target of a request. It is empty for a context without one.
func TargetOf(ctx context.Context) *Target {
	if t, ok := ctx.Value(targetKey{}).(*Target); ok {
		return t
	}
	return new(Target)
}

// The headers that name a port of a sandbox.
const (
	headerID   = "E2b-Sandbox-Id"
	headerPort = "E2b-Sandbox-Port"
)

// Domain is the domain of host names of sandboxes. The zero value means that sandboxes have none.
type Domain struct {
	// Name is the domain without a port, and Port the port with its colon, if it has one.
	Name, Port string
}

// ParseDomain reads a domain such as sandboxes.example.org. A port may follow.
func ParseDomain(s string) (Domain, error) {
	name, port, hasPort := strings.Cut(strings.ToLower(s), ":")
	if s == "" {
		return Domain{}, nil
	}
	_, err := strconv.ParseUint(port, 10, 16)
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789.-"
	if name == "" || strings.Trim(name, letters) != "" || strings.Trim(name, ".-") != name ||
		hasPort && err != nil {
		return Domain{}, fault.Invalid("sandbox.domain", "e2b_domain",
			"%q is not a domain such as sandboxes.example.org", s)
	}
	d := Domain{Name: name}
	if hasPort {
		d.Port = ":" + port
	}
	return d, nil
}

// String returns the domain as clients need it. It is empty for no domain.
func (d Domain) String() string { return d.Name + d.Port }

// Has reports whether a Host header names the domain, or a host below it.
func (d Domain) Has(host string) bool {
	name := hostName(host)
	return d.Name != "" && (name == d.Name || strings.HasSuffix(name, "."+d.Name))
}

// label returns the host name below the domain.
func (d Domain) label(host string) (string, bool) {
	if d.Name == "" {
		return "", false
	}
	return strings.CutSuffix(hostName(host), "."+d.Name)
}

func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(host)
}

// Addressed reports whether a request is for a port of a sandbox: its host name has the form of one,
// or it has one of the two headers.
func (d Domain) Addressed(r *http.Request) bool {
	if label, ok := d.label(r.Host); ok {
		port, _, _ := strings.Cut(label, "-")
		if _, number := portNumber(port); number {
			return true
		}
	}
	return len(r.Header[headerID]) > 0 || len(r.Header[headerPort]) > 0
}

// Target returns the port that a request is for. The host name has precedence over the headers.
// Errors: Malformed if one of the headers lacks or is not valid; NotFound for an id that cannot
// exist.
func (d Domain) Target(r *http.Request) (*Target, error) {
	const op = "sandbox.target"
	var number string
	t := &Target{}
	if label, ok := d.label(r.Host); ok {
		if at, rest, dash := strings.Cut(label, "-"); dash {
			number, t.OwnHost = at, true
			t.ID, _, _ = strings.Cut(rest, "-")
		}
	}
	if !t.OwnHost {
		ids, numbers := r.Header[headerID], r.Header[headerPort]
		if len(ids) != 1 || len(numbers) != 1 {
			return nil, fault.New(fault.Malformed, op,
				"a request to a sandbox has one header %s and one header %s", headerID, headerPort)
		}
		t.ID, number = ids[0], numbers[0]
	}
	port, ok := portNumber(number)
	if !ok {
		return nil, fault.New(fault.Malformed, op, "%.40q is not a port from 1 to 65535", number)
	}
	t.Port = port
	if t.Session, ok = e2bname.Session(t.ID); !ok {
		return t, fault.New(fault.NotFound, op, "there is no sandbox with this id")
	}
	return t, nil
}

func portNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && n > 0 && s[0] != '0'
}
