package gateway

import (
	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/gateway/onlyboxes"
	"github.com/sandgate/sandgate/gateway/opensandbox"
	"github.com/sandgate/sandgate/gateway/opensandbox/execd"
	"github.com/sandgate/sandgate/internal/surfaces"
)

// openChats makes the surfaces for chat applications whose users have tokens.
func openChats(g *Gateway) (err error) {
	if g.libreChat, err = newLibreChat(g); err != nil {
		return err
	}
	g.onlyboxes, err = onlyboxes.New(onlyboxes.Config{
		Options: g.cfg.Onlyboxes, Settings: g.cfg.settings(surfaces.Onlyboxes),
		Node: surfaceNode{g}, Keys: g.auth, Log: g.log, Call: g.cfg.Times.Call,
	})
	return err
}

// newOpenSandbox returns the surface for clients of OpenSandbox.
func newOpenSandbox(g *Gateway, commands *exec.Surface) *opensandbox.Surface {
	settings := g.cfg.settings(surfaces.OpenSandbox)
	return opensandbox.New(opensandbox.Config{
		Settings: settings, Auth: g.auth, Owners: owners{g.node}, MaxBody: g.cfg.Limits.File,
		Ports: g.portSurface.Handler(), Execd: execd.Config{
			Node: surfaceNode{g}, Runner: g.runs, Commands: commands, Go: g.start,
			Call: g.cfg.Times.Call, KeepAlive: g.cfg.Times.KeepAlive, Timeout: settings.Timeout,
		},
	})
}
