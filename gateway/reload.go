package gateway

import (
	"crypto/tls"
	"maps"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/edge"
	"github.com/sandgate/sandgate/internal/noderpc"
)

// Changeable are the settings that can change while a gateway runs. The fields
// are those of Config.
type Changeable struct {
	Tokens         map[string]noderpc.Principal
	Until          map[string]time.Time
	AllowedHosts   []string
	AllowedOrigins []string
	Certificates   []tls.Certificate
	PerPrincipal   int
}

// expiry returns when the first certificate expires, since unix epoch in seconds; 0 without one.
func (c Config) expiry() int64 {
	if c.Expiry == nil || c.Expiry().IsZero() {
		return 0
	}
	return c.Expiry().Unix()
}

func (c Config) changeable() Changeable {
	return Changeable{
		c.Tokens, c.Until, c.AllowedHosts, c.AllowedOrigins, c.Certificates, c.Limits.PerPrincipal,
	}
}

// Reload applies new settings, all or none of them. Open connections stay open, even if the token
// that opened them was removed.
func (g *Gateway) Reload(c Changeable) error {
	tokens, err := auth.ParseTokens(c.Tokens, c.Until)
	if err != nil {
		return err
	}
	hosts, err := parseHosts(c.AllowedHosts)
	if err != nil {
		return err
	}
	origins, err := parseOrigins(c.AllowedOrigins)
	if err != nil {
		return err
	}
	g.sockets.SetLimit(c.PerPrincipal)
	g.tls.Store(edge.TLSConfig(c.Certificates))
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(hosts, g.own)
	g.hosts = hosts
	g.origins.Store(&origins)
	g.auth.SetTokens(tokens)
	return nil
}
