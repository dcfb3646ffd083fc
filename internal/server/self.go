package server

import (
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/edition/survey"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// self is this node, for operators.
type self struct {
	place   *membership
	manager *session.Manager
	drainer *migrate.Drainer
	version string
	started time.Time
	// editions are those of the node.
	editions *survey.Survey
}

// newSelf returns the node of a manager. place is its place in the directory.
func newSelf(place *membership, m *session.Manager, version string,
	e *survey.Survey,
) *self {
	return &self{
		place: place, manager: m, version: version, started: time.Now(), editions: e,
		drainer: migrate.NewDrainer(m.Migration(), place.leases.HeartbeatNow),
	}
}

// List describes the node. Routers join the lists of all nodes.
func (s *self) List() nodes.NodeList {
	list := nodes.NodeList{Nodes: []nodes.NodeInfo{s.info()}}
	list.Parked, list.Stored = s.editions.InStore()
	return list
}

// Change drains the node, or lets it take sessions again. Errors: NotFound for the name of another
// node, and those of migrate.Drainer.
func (s *self) Change(u nodes.NodeUpdate) (nodes.NodeInfo, error) {
	if cluster.NodeID(u.Node) != s.place.name {
		return nodes.NodeInfo{}, cluster.NoNode("node.update")
	}
	change := s.drainer.Stop
	if u.Draining {
		change = s.drainer.Start
	}
	if err := change(); err != nil {
		return nodes.NodeInfo{}, err
	}
	return s.info(), nil
}

func (s *self) info() nodes.NodeInfo {
	info := nodes.NodeInfo{
		Name: string(s.place.name), Version: s.version, StartedMS: s.started.UnixMilli(),
	}
	s.place.info().Report(&info)
	info.Address = s.place.address
	pool := s.manager.Status().Pool
	info.Ready, info.PoolSize, info.PoolError = pool.Ready, pool.Size, pool.LastError
	info.Editions = s.editions.Editions()
	s.drainer.Fill(&info)
	return info
}
