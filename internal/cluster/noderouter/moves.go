package noderouter

import (
	"sync"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// linkIndex has the links that use each session, with the node that they reach it on.
type linkIndex struct {
	mu sync.Mutex // guards all below; leaf
	of map[cluster.SessionID]map[*Link]cluster.NodeID
}

// use records that a link uses a session on a node.
func (x *linkIndex) use(l *Link, id cluster.SessionID, node cluster.NodeID) {
	if id == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[cluster.SessionID]map[*Link]cluster.NodeID{}
	}
	if x.of[id] == nil {
		x.of[id] = map[*Link]cluster.NodeID{}
	}
	x.of[id][l] = node
}

// remove removes a link from its sessions.
func (x *linkIndex) remove(l *Link, sessions []cluster.SessionID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range sessions {
		delete(x.of[id], l)
		if len(x.of[id]) == 0 {
			delete(x.of, id)
		}
	}
}

// elsewhere returns the links that use a session on another node than its owner.
func (x *linkIndex) elsewhere(id cluster.SessionID, owner cluster.NodeID) (all []*Link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for l, node := range x.of[id] {
		if node != owner {
			all = append(all, l)
		}
	}
	return all
}

// Moved ends the links that use a session on another node than its new owner, so that their clients
// connect again and reach the owner. The earlier node may be unable to end them: it may be cut off
// from the directory. Moved does not block.
func (r *Router) Moved(e cluster.Event) {
	if e.Session == "" || e.Node == "" {
		return
	}
	for _, l := range r.uses.elsewhere(e.Session, e.Node) {
		go l.shutdown(&fault.Error{
			Kind: fault.Restarting, Op: "noderouter.link", RetryAfter: 1,
			Message: "a session of the connection is on another node now",
		})
	}
}
