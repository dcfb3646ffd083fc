package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Config has the hosts that sessions may reach, and the limits of their connections. The zero value
// allows no host.
type Config struct {
	// Gate checks and dials targets. nil allows no host.
	Gate *egress.Gate
	// Tenants are the tenants whose sessions may have a network; nil means all.
	Tenants []string
	// Port is the loopback port of the proxy in the sandbox. Default 3128.
	Port int
	// Connections is how many connections a session may have at once. Default 64, at most
	// wire.MaxEgress.
	Connections int
	// Rate is how many bytes per second a session may transfer, in both directions together. Bytes
	// is how many it may transfer in all. 0 means no limit.
	Rate, Bytes int64
	// Idle is how long a connection may carry no bytes. Default 5 min.
	Idle time.Duration
}

// Resolve returns the configuration with its defaults.
func (c Config) Resolve() (Config, error) {
	c.Port, c.Connections, c.Idle = cmp.Or(c.Port, 3128), cmp.Or(c.Connections, 64), cmp.Or(c.Idle,
		5*time.Minute)
	if c.Gate == nil {
		gate, err := egress.New(egress.Config{})
		if err != nil {
			return c, err
		}
		c.Gate = gate
	}
	return c, nil
}

// Check returns the network of a tenant's session, or of the build of a template; nil means that it
// has no network. field is the field of the request. Errors: InvalidArgument, PermissionDenied.
func (c Config) Check(op, field, tenant string,
	asked *protocol.Network,
) (*protocol.Network, error) {
	if asked == nil || asked.Off {
		return nil, nil
	}
	server := c.Gate.Allowed()
	switch {
	case len(server) == 0:
		return nil, &fault.Error{
			Kind: fault.PermissionDenied, Op: op, Field: field, Cause: fault.CauseEgress,
			Message: "this server lets nothing out (egress.allow)",
		}
	case c.Tenants != nil && !slices.Contains(c.Tenants, tenant):
		return nil, &fault.Error{
			Kind: fault.PermissionDenied, Op: op, Field: field, Cause: fault.CauseEgress,
			Message: "this server does not let your tenant out (egress.tenants)",
		}
	}
	denied, err := egress.ParseNetworks(field+".deny", asked.Deny)
	if err != nil {
		return nil, err
	}
	var deny []string
	for _, p := range denied {
		deny = append(deny, p.String())
	}
	switch {
	case asked.Allow == nil:
		return &protocol.Network{Deny: deny}, nil
	case len(asked.Allow) == 0:
		return nil, fault.Invalid(op, field+".allow",
			"the list names no host; true means all that the server lets out, false nothing")
	}
	list, err := c.Gate.ParseList(field+".allow", asked.Allow)
	if err != nil {
		return nil, err
	}
	if host, beyond := server.Beyond(list); beyond {
		return nil, &fault.Error{
			Kind: fault.PermissionDenied, Op: op, Field: field + ".allow",
			Cause:   fault.CauseEgress,
			Message: fmt.Sprintf("%s is beyond what this server lets out (egress.allow)", host),
		}
	}
	return &protocol.Network{Allow: list.Strings(), Deny: deny}, nil
}

// CheckUpdate returns the network to which the network of a session with the proxy p can change; nil
// for no change. p may be nil. Errors: those of Check, Conflict for a session that was created
// without a network.
func (c Config) CheckUpdate(p *Proxy, tenant string, asked *protocol.Network) (*protocol.Network,
	error,
) {
	const op, field = protocol.OpSessionUpdate, "network"
	switch {
	case asked == nil, p == nil && asked.Off:
		return nil, nil
	case p == nil:
		return nil, &fault.Error{
			Kind: fault.Conflict, Op: op, Field: field,
			Message: "the session was created without a network, so its programs have no proxy",
		}
	case asked.Off:
		return asked, nil
	}
	return c.Check(op, field, tenant, asked)
}

// Offline returns the variables of a session without network: those of the user, and settings that
// make package managers fail at once instead of trying for a minute.
func Offline(user map[string]string) map[string]string {
	env := map[string]string{"PIP_RETRIES": "1", "NPM_CONFIG_FETCH_RETRIES": "0"}
	maps.Copy(env, user)
	return env
}

// Env returns the variables with which programs find the proxy, and the variables of the user, which
// take precedence. Node's fetch reads them only with NODE_USE_ENV_PROXY.
func (c Config) Env(user map[string]string) map[string]string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(c.Port)
	const direct = "localhost,127.0.0.1,::1"
	env := map[string]string{
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": direct,
		"http_proxy": proxy, "https_proxy": proxy, "no_proxy": direct,
		"NODE_USE_ENV_PROXY": "1",
	}
	maps.Copy(env, user)
	return env
}
