package session_test

import (
	"github.com/sandgate/sandgate/internal/nodeapi"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session"
)

func init() {
	session.NewHandler = func(m *session.Manager, cfg session.Config) (noderpc.Handler, error) {
		api := nodeapi.ConfigFor(m)
		api.Tenants, api.Audit, api.Tracer, api.Version, api.Logger = cfg.Tenants, cfg.Audit,
			cfg.Tracer, cfg.Version, cfg.Logger
		return nodeapi.New(api)
	}
}
