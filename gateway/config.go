package gateway

import (
	"crypto/tls"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/jupyter/events"
	"github.com/sandgate/sandgate/gateway/librechat"
	"github.com/sandgate/sandgate/gateway/librechat/usertoken"
	"github.com/sandgate/sandgate/gateway/onlyboxes"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Config configures a gateway. The zero value of each field means its default.
type Config struct {
	// Version is the server's version, which GET /v1 and hello report.
	Version string
	// Tokens maps auth.HashToken of a bearer token to its principal.
	Tokens map[string]noderpc.Principal
	// Until is when tokens expire. Its keys are those of Tokens. A token without an entry does not
	// expire.
	Until map[string]time.Time
	// AllowedHosts are the accepted values of Host: "name" with any port, or "name:port". The
	// default is localhost, 127.0.0.1 and [::1]. The address that Serve listens on is always added
	// if it names a host.
	AllowedHosts []string
	// AllowedOrigins are the origins, such as "https://app.example.com", whose pages may use the
	// server in addition to its own pages.
	AllowedOrigins []string
	// Certificates are those of the listeners with TLS. The first one is for names that no other one
	// has.
	Certificates []tls.Certificate
	// PortsDomain is the domain of the host names of sessions' ports: <port>-<session>.<domain>. It
	// may include a scheme, http by default, and a port. Empty means that ports are reached only by
	// paths.
	PortsDomain string
	// E2BDomain is the domain of clients of E2B: api.<domain>, <port>-<id>.<domain> and
	// sandbox.<domain>. Empty means that such clients use the server's own address.
	E2BDomain string
	// E2BOpenInterpreter lets clients of E2B that send no token run code in sandboxes that they have
	// created without asking for a secure one.
	E2BOpenInterpreter bool
	// LibreChat configures the surface for LibreChat.
	LibreChat LibreChat
	// Onlyboxes configures the surface for LobeHub.
	Onlyboxes onlyboxes.Options
	// Settings are the settings of surfaces for chat applications, by name. A surface without an
	// entry has its defaults.
	Settings map[string]surfaces.Settings
	// Static is the web application, each file packed as name.gz: index.html, assets/, sandbox/.
	// nil serves a page that describes the server.
	Static fs.FS
	// SignIn configures the OpenID Connect provider at which users of browsers sign in. nil
	// disables sign-in.
	SignIn *auth.SignIn
	// Tickets stores unused tickets, RunTokens run tokens, and Rates request quotas. The gateways
	// of a cluster share them. nil stores them in memory.
	Tickets   auth.OneTimeStore
	RunTokens auth.SharedRunTokenStore
	Rates     auth.RateStore
	// Relay connects the gateways of a cluster. nil means that there are no others.
	Relay Relay
	// Surfaces are protocol surfaces in addition to the gateway's own.
	Surfaces []surface.Surface
	// WebhookAllow are networks that are not public and that webhooks may reach. NoWebhooks makes a
	// gateway that sends none.
	WebhookAllow []netip.Prefix
	NoWebhooks   bool
	// Expiry returns when the first of the gateway's certificates expires; 0 without certificates.
	// nil means 0.
	Expiry func() time.Time
	// Tracer creates the spans of requests. nil creates none.
	Tracer *trace.Tracer
	Limits Limits
	Times  Times
}

// Relay sends messages between the gateways of a cluster.
type Relay = events.Relay

// LibreChat configures the surface for LibreChat.
type LibreChat struct {
	librechat.Settings
	// Tokens says which tokens of users are accepted. Without keys, no token is.
	Tokens usertoken.Config
}

// Limits bound the resources that clients can use in the gateway.
type Limits struct {
	// Connections is the largest number of open connections. Default 10,000.
	Connections int
	// PerPrincipal is the largest number of WebSockets of one principal. Default 256.
	PerPrincipal int
	// InFlight is the largest number of concurrent HTTP requests. Default 1,024.
	InFlight int
	// Header is the largest request line and header, in bytes. Default 16 KiB.
	Header int
	// File is the largest file that a client can write, in bytes. Default 4 GiB.
	File int64
	// RunBody is the largest body of a request that runs code or a command, in bytes. Default
	// 16 MiB.
	RunBody int64
	// Tickets is the largest number of unused tickets, separately for WebSockets, for ports and for
	// run tickets. Default 10,000.
	Tickets int
}

// Times are deadlines.
type Times struct {
	// Header is how long a request's header, and the first 8 KiB of its body,
	// may take. Default 10 s.
	Header time.Duration
	// Body is how long a body may pause; its average rate must be at least 1 KiB/s. Default 30 s.
	Body time.Duration
	// Idle is how long a connection waits for its next request. Default 60 s.
	Idle time.Duration
	// Write is how long a WebSocket's client may read nothing. For HTTP clients it is three times
	// that. Default 10 s.
	Write time.Duration
	// Hello is how long a WebSocket may take to send hello. Default 10 s.
	Hello time.Duration
	// Ping is the time between two pings of a WebSocket. Default 25 s.
	Ping time.Duration
	// Pong is how long the answer to a ping may take. Default 20 s.
	Pong time.Duration
	// Message is how long one message may take to arrive. Default 30 s.
	Message time.Duration
	// KeepAlive is the time between two keepalive events in an event stream. Default 10 s.
	KeepAlive time.Duration
	// Call is how long a request to the node may take. Default 60 s.
	Call time.Duration
	// SelfCheck is the largest age of the self-check cell on which a readiness answer is based.
	// Default 5 min; negative disables the self-check.
	SelfCheck time.Duration
	// Drain is how long a shutdown waits for requests. Default 15 s.
	Drain time.Duration
}

// cleanupTimeout is how long deleting an ephemeral session may take.
const cleanupTimeout = 15 * time.Second

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (c Config) withDefaults() Config {
	if c.AllowedHosts == nil {
		c.AllowedHosts = []string{"localhost", "127.0.0.1", "[::1]"}
	}
	orDefault(&c.Version, "dev")
	orDefault(&c.Limits.Connections, 10_000)
	orDefault(&c.Limits.PerPrincipal, 256)
	orDefault(&c.Limits.InFlight, 1024)
	orDefault(&c.Limits.Header, 16<<10)
	orDefault(&c.Limits.File, 4<<30)
	orDefault(&c.Limits.RunBody, 16<<20)
	orDefault(&c.Limits.Tickets, 10_000)
	orDefault(&c.LibreChat.Timeout, 2*time.Minute)
	orDefault(&c.LibreChat.Retention, 24*time.Hour)
	orDefault(&c.Times.Header, 10*time.Second)
	orDefault(&c.Times.Body, 30*time.Second)
	orDefault(&c.Times.Idle, 60*time.Second)
	orDefault(&c.Times.Write, 10*time.Second)
	orDefault(&c.Times.Hello, 10*time.Second)
	orDefault(&c.Times.Ping, 25*time.Second)
	orDefault(&c.Times.Pong, 20*time.Second)
	orDefault(&c.Times.Message, 30*time.Second)
	orDefault(&c.Times.KeepAlive, 10*time.Second)
	orDefault(&c.Times.Call, 60*time.Second)
	orDefault(&c.Times.SelfCheck, 5*time.Minute)
	orDefault(&c.Times.Drain, 15*time.Second)
	return c
}

// settings returns the settings of a surface for chat applications.
func (c Config) settings(name string) surfaces.Settings {
	if s, ok := c.Settings[name]; ok {
		return s
	}
	return surfaces.Defaults(name)
}

func parseHosts(in []string) (map[string]bool, error) {
	out := make(map[string]bool, len(in))
	for _, h := range in {
		h = strings.ToLower(h)
		if h == "" || strings.ContainsAny(h, "/@*? ") {
			return nil, fault.Invalid("gateway.config", "allowed_hosts",
				"%q is not a host name, with or without a port", h)
		}
		out[h] = true
	}
	return out, nil
}

func parseOrigins(in []string) (map[string]bool, error) {
	out := make(map[string]bool, len(in))
	for _, o := range in {
		o = strings.ToLower(o)
		if !tenant.IsOrigin(o) {
			return nil, fault.Invalid("gateway.config", "allowed_origins",
				"%q is not an origin such as https://app.example.com", o)
		}
		out[o] = true
	}
	return out, nil
}

// listenHost returns the host that addr names, as it is spelled in a Host header.
func listenHost(addr net.Addr) (string, bool) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP == nil || tcp.IP.IsUnspecified() {
		return "", false
	}
	if tcp.IP.To4() == nil {
		return "[" + tcp.IP.String() + "]", true
	}
	return tcp.IP.String(), true
}
