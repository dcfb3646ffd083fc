package noderouter

import (
	"sync"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// branchIndex has the branches that are used for each session.
type branchIndex struct {
	mu sync.Mutex // guards all below; leaf
	of map[cluster.SessionID]map[*branch]struct{}
}

// use records that a branch is used for a session.
func (x *branchIndex) use(b *branch, id cluster.SessionID) {
	if id == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[cluster.SessionID]map[*branch]struct{}{}
	}
	if x.of[id] == nil {
		x.of[id] = map[*branch]struct{}{}
	}
	x.of[id][b] = struct{}{}
}

// remove removes a branch from its sessions. Preconditions: the link's mu is held.
func (x *branchIndex) remove(b *branch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for session := range b.sessions {
		id := cluster.SessionID(session)
		delete(x.of[id], b)
		if len(x.of[id]) == 0 {
			delete(x.of, id)
		}
	}
}

// elsewhere returns the branches that are used for a session and lead to another node than its owner.
func (x *branchIndex) elsewhere(id cluster.SessionID, owner cluster.NodeID) (all []*branch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for b := range x.of[id] {
		if b.of.id != owner {
			all = append(all, b)
		}
	}
	return all
}

// Moved ends the branches that are used for a session and lead to another node than its new owner, so
// that their clients attach again and reach the owner. The earlier node may be unable to end them: it
// may be cut off from the directory. Moved does not block.
func (r *Router) Moved(e cluster.Event) {
	if e.Session == "" || e.Node == "" {
		return
	}
	for _, b := range r.uses.elsewhere(e.Session, e.Node) {
		go b.client.endBranch(b, &fault.Error{
			Kind: fault.Restarting, Op: "noderouter.link", RetryAfter: 1,
			Message: "a session of the connection is on another node now",
		})
	}
}
