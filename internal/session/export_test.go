package session

import "github.com/sandgate/sandgate/internal/noderpc"

// NewHandler makes the handler of a node's links, with what the manager was
// configured with. The tests of this package reach the manager through links.
// The package that has the handlers imports this one, so that an external test
// package sets it.
var NewHandler func(m *Manager, cfg Config) (noderpc.Handler, error)
