// Package noderpc is the protocol between a gateway and a node: links over one
// connection. A connection is yamux over a net.Conn (a Unix socket on one
// machine, TLS between machines); a link is one of its streams and carries
// frames of package stream in both directions. The first frame of a link says
// who it speaks for; all that follows is the public protocol, word for word.
//
// Whoever can open the connection may speak for any principal: the listener
// guards it, by the mode and owner of a socket file or by client certificates.
package noderpc

import (
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// Version is the protocol's. A gateway and a node with different versions
// refuse each other on the first frame.
const Version = 1

// Limits and times.
const (
	// MaxLinks is how many links one node serves at once, over all its
	// connections, and one client opens. The next is refused as exhausted.
	MaxLinks = 20480
	// MaxConns is how many gateways may be connected to one node.
	MaxConns = 64
	// MaxScopes and MaxName bound a principal: scopes, and bytes of each of
	// its strings.
	MaxScopes = 64
	MaxName   = 256
	// Window is how many bytes of a link one side sends before the other has
	// read them.
	Window = 256 << 10
	// WriteTimeout is how long a Send waits for a peer that does not read.
	WriteTimeout = 30 * time.Second
	// HelloTimeout is how long a new link may take to say who it is.
	HelloTimeout = 10 * time.Second
	// ConnectTimeout is how long Open tries to reach a node that is away.
	ConnectTimeout = 2 * time.Second

	// maxRequest is the largest body a node reads: a control message, and
	// room for the offset of a frame.
	maxRequest = protocol.MaxControl + 1<<10
	maxHello   = 64 << 10

	keepAlive    = 15 * time.Second
	connTimeout  = 10 * time.Second
	openTimeout  = 30 * time.Second
	closeTimeout = 30 * time.Second
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = 250 * time.Millisecond
)

// Principal is whom a link speaks for. The gateway has checked it.
type Principal struct {
	// Tenant owns sessions. Nothing of one tenant is visible to another.
	Tenant string `json:"tenant"`
	// Subject is the user or the key, for logs.
	Subject string `json:"subject,omitempty"`
	// Scopes are what the credentials allow.
	Scopes []string `json:"scopes,omitempty"`
	// Session is the only session that the credentials are for; empty for all
	// of the tenant's.
	Session string `json:"session,omitempty"`
	// Until is when the credentials end, zero for never. It is the gateway's
	// own affair: the node is not told.
	Until time.Time `json:"-"`
	// Link is the id of the link for viewing that somebody came by, and the
	// gateway's own affair too.
	Link string `json:"-"`
}

// Sees reports whether a session of a tenant exists for the principal.
func (p Principal) Sees(tenant, session string) bool {
	return p.Tenant == tenant && (p.Session == "" || p.Session == session)
}

// GatewayTenant is the tenant of what a gateway asks on its own account. No
// credentials are given it.
const GatewayTenant = "sandgate:gateway"

// hello is the first frame of a link, in a Control frame.
type hello struct {
	Version int `json:"version"`
	Principal
}

// flagRefused marks the Control frame with which a server turns a link down;
// its body is a protocol.Reply with an error. It is only ever a link's first.
const flagRefused = stream.FlagEnd
