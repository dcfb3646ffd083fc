package openterminal

import (
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// port is a port that a program listens on.
type port struct {
	Port    int     `json:"port"`
	PID     *int    `json:"pid"`
	Process *string `json:"process"`
}

// listPorts lists the ports that programs listen on.
func listPorts(w http.ResponseWriter, r *http.Request, c *call) error {
	all := []port{}
	if c.session.ID != "" {
		var list protocol.PortList
		if err := c.node(r.Context(), protocol.OpPortList,
			protocol.SessionRef{Session: c.session.ID}, &list); err != nil {
			return err
		}
		for _, p := range list.Ports {
			if len(all) == 0 || all[len(all)-1].Port != p.Port { // it has several addresses
				all = append(all, port{Port: p.Port})
			}
		}
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{"ports": all})
}

// proxy forwards a request to a port, and upgrades such as WebSockets.
func proxy(w http.ResponseWriter, r *http.Request, c *call) error {
	if c.session.ID == "" {
		return fault.New(fault.NotFound, "openterminal.proxy", "the user has no session yet")
	}
	t, err := ports.TargetOfPath(c.session.ID, r.PathValue("port"))
	if err != nil {
		return err
	}
	who := c.who
	t.Prefix = Prefix + "/proxy/" + strconv.Itoa(t.Port)
	t.Valid, t.Until = func() bool { return c.cfg.Auth.Valid(who) }, who.Until
	c.cfg.Ports.ServeHTTP(w, r.WithContext(ports.WithTarget(r.Context(), t)))
	return nil
}
