package gateway

import (
	"github.com/sandgate/sandgate/gateway/dify"
	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/ragflow"
	"github.com/sandgate/sandgate/internal/surfaces"
)

// newPrograms returns the runner of programs of surfaces that keep nothing.
func newPrograms(g *Gateway) *oneshot.Runner {
	return &oneshot.Runner{Runs: g.runs, Go: g.start}
}

// newDify returns the surface for Dify.
func newDify(g *Gateway) *dify.Surface {
	return dify.New(dify.Config{
		Keys: g.auth, Programs: newPrograms(g), Settings: g.cfg.settings(surfaces.Dify),
	})
}

// newRAGFlow returns the surface for RAGFlow.
func newRAGFlow(g *Gateway) *ragflow.Surface {
	return ragflow.New(ragflow.Config{
		Keys: g.auth, Programs: newPrograms(g), Settings: g.cfg.settings(surfaces.RAGFlow),
	})
}
