// Package applications makes the surfaces for applications that run code in sandboxes of their own and
// need nothing of the gateway but its node and its keys.
package applications

import (
	"time"

	"github.com/sandgate/sandgate/gateway/azure"
	"github.com/sandgate/sandgate/gateway/dify"
	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/gateway/fastgpt"
	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/ragflow"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/surfaces"
)

// Config configures the surfaces. Every field is required.
type Config struct {
	Keys     surface.Keys
	Node     azure.Node
	Runs     *run.Runner
	Commands *exec.Surface
	// Settings returns the operator's settings of a surface.
	Settings func(name string) surfaces.Settings
	// Go calls a function in a goroutine that a shutdown waits for. It returns false after a
	// shutdown has begun.
	Go func(func()) bool
	// Call is how long a request to the node may take.
	Call time.Duration
}

// New returns the surfaces.
func New(cfg Config) []surface.Surface {
	programs := &oneshot.Runner{Runs: cfg.Runs, Go: cfg.Go}
	return []surface.Surface{
		azure.New(azure.Config{
			Keys: cfg.Keys, Node: cfg.Node, Cells: programs, Commands: cfg.Commands, Call: cfg.Call,
			Settings: cfg.Settings(surfaces.Azure),
		}),
		dify.New(dify.Config{
			Keys: cfg.Keys, Programs: programs, Settings: cfg.Settings(surfaces.Dify),
		}),
		fastgpt.New(fastgpt.Config{
			Keys: cfg.Keys, Programs: programs, Settings: cfg.Settings(surfaces.FastGPT),
		}),
		ragflow.New(ragflow.Config{
			Keys: cfg.Keys, Programs: programs, Settings: cfg.Settings(surfaces.RAGFlow),
		}),
	}
}
