package nodeapi

import (
	"context"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/nodeapi/retry"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// defaultPortWait and maxPortWait bound port.wait, in seconds.
const defaultPortWait, maxPortWait = 30, 300

// checkPort checks the port of a request, and how long the request waits for it. Credentials of a
// preview link are for one port only.
func (c *call) checkPort(port, seconds, limit int) error {
	only, limited := c.principal.OnlyPort()
	switch {
	case port < 1 || port > 65535:
		return fault.Invalid(c.op(), "port", "a port is a number from 1 to 65535")
	case seconds < 0 || seconds > limit:
		return fault.Invalid(c.op(), "seconds", "a request waits for 0 to %d seconds", limit)
	case limited && port != only:
		return fault.New(fault.PermissionDenied, c.op(), "a preview link is for one port")
	}
	return nil
}

// portWait waits until a program listens on a port. It does not connect to the program. It keeps the
// session awake.
func portWait(ctx context.Context, c *call, p protocol.PortWait) (protocol.Port, error) {
	if err := c.checkPort(p.Port, p.Seconds, maxPortWait); err != nil {
		return protocol.Port{}, err
	}
	if p.Seconds == 0 {
		p.Seconds = defaultPortWait
	}
	var found protocol.Port
	err := retry.Until(ctx, time.Duration(p.Seconds)*time.Second, func() (again bool, err error) {
		all, err := withSession(ctx, c, p.Session, func(s *session.Session) ([]wire.Port, error) {
			return s.Agent().Ports.List(ctx)
		})
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(all, func(o wire.Port) bool { return o.Port == p.Port })
		if i < 0 {
			return true, &fault.Error{
				Kind: fault.DeadlineExceeded, Op: c.op(), Field: "port",
				Message: "no program listened on the port in time",
			}
		}
		found = protocol.Port(all[i])
		return false, nil
	})
	return found, err
}
