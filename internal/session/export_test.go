package session

import "github.com/sandgate/sandgate/internal/noderpc"

// NewHandler makes the handler of a node's links, with the configuration of the manager. The tests
// of this package reach the manager through links. The package with the handlers imports this one,
// so an external test package sets this variable.
var NewHandler func(m *Manager, cfg Config) (noderpc.Handler, error)
