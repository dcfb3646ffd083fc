package gateway

import (
	"maps"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
)

// access is who is let in, and from where.
type access struct {
	tokens  []token
	origins map[string]bool
}

// Changeable are the settings that a gateway takes up while it runs; the
// fields are Config's.
type Changeable struct {
	Tokens         map[string]noderpc.Principal
	Until          map[string]time.Time
	AllowedHosts   []string
	AllowedOrigins []string
	PerPrincipal   int
}

func (c Config) changeable() Changeable {
	return Changeable{c.Tokens, c.Until, c.AllowedHosts, c.AllowedOrigins, c.Limits.PerPrincipal}
}

// Reload takes up new settings, all or none of them. Connections that are
// open stay so, whatever became of the token that opened them.
func (g *Gateway) Reload(c Changeable) error {
	tokens, err := parseTokens(c.Tokens, c.Until)
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
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(hosts, g.own)
	g.hosts, g.perPrincipal = hosts, c.PerPrincipal
	g.access.Store(&access{tokens, origins})
	return nil
}
