package cluster

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Policy is the rule by which sessions are divided between nodes.
type Policy string

// The policies.
const (
	// Spread chooses the node with the least load.
	Spread Policy = "spread"
	// Pack chooses the node with the most load that has room and a reserve, so that other nodes stay
	// empty.
	Pack Policy = "pack"
)

// Limits of the placement.
const (
	// ExpectedMemory is the memory that a session is expected to need if nothing else is known.
	ExpectedMemory = 256 << 20
	// packedShare is the part of each resource that Pack uses. The rest is the reserve.
	packedShare = 0.9
	// loadSteps is the number of steps in which Spread compares loads. Loads within one step are
	// equal: then the number of sessions decides.
	loadSteps = 10
	// spreadChoices is the number of random nodes of which Spread takes the one with the least load.
	// Each gateway learns of the sessions that others have placed with the next heartbeat of their
	// node. So not all may choose the one node that had the least load.
	spreadChoices = 3
	// packedNodes is the number of nodes for each of which Pack has one more to choose from.
	packedNodes = 10
	// settleTime is how long before a heartbeat a session may have been placed that the heartbeat
	// does not count yet.
	settleTime = 200 * time.Millisecond
)

// Need describes the needs of a new or parked session.
type Need struct {
	// Language is the language for which a node may have warm sandboxes; may be empty.
	Language string
	// Memory is a number of bytes. Less than ExpectedMemory counts as that.
	Memory int64
	// Image is the edition that the memory of a parked session is for. Nodes without it cannot
	// resume it. It may be empty.
	Image string
	// Near are the nodes that have the template or the snapshot of the session already.
	Near []NodeID
}

// placed is a session that was placed on a node.
type placed struct {
	at     time.Time
	memory int64
}

// rank orders nodes. The first field that differs decides, and smaller ranks are better.
type rank struct {
	// image, room, zone, near and warm are 0 for a node that fulfils the preference.
	image, room, zone, near, warm int
	// load and sessions are compared within a class of nodes that are otherwise equal.
	load, sessions float64
}

// class compares ranks without the loads.
func (r rank) class(other rank) int {
	return cmp.Or(
		cmp.Compare(r.image, other.image), cmp.Compare(r.room, other.room),
		cmp.Compare(r.zone, other.zone), cmp.Compare(r.near, other.near),
		cmp.Compare(r.warm, other.warm),
	)
}

// ranked is a node with its rank.
type ranked struct {
	node Node
	rank rank
}

// The values of rank.room.
const (
	roomFree = iota
	roomReserved
	roomBusy
	roomNone
)

// HasRoom reports whether a node has room for a session that needs some memory. A resource that the
// node does not report has room.
func (n NodeInfo) HasRoom(memory int64) bool { return n.HasPlace(memory) && n.Processors < 1 }

// HasPlace is HasRoom, but the processors may be busy: a session would run there, slowly.
func (n NodeInfo) HasPlace(memory int64) bool {
	return n.fits(memory, 1) && (n.Disk == 0 || n.DiskFree >= max(memory, ExpectedMemory))
}

// fits reports whether a node uses at most a share of its places and its memory with one more session.
func (n NodeInfo) fits(memory int64, share float64) bool {
	return float64(n.Sessions+1) <= max(share*float64(n.Most), 1) && (n.Memory == 0 ||
		float64(n.MemoryUsed+max(memory, ExpectedMemory)) <= share*float64(n.Memory))
}

// sessionShare returns the part of the places that is taken.
func (n NodeInfo) sessionShare() float64 { return float64(n.Sessions) / float64(max(n.Most, 1)) }

// memoryShare returns the part of the memory that is taken; 0 if the node does not report it.
func (n NodeInfo) memoryShare() float64 {
	if n.Memory <= 0 {
		return 0
	}
	return float64(n.MemoryUsed) / float64(n.Memory)
}

// scarcity returns the part in use of the resource that is scarcest.
func (n NodeInfo) scarcity() float64 {
	return max(n.sessionShare(), n.memoryShare(), n.Processors)
}

// expected returns the description of a node together with the sessions that were placed on it and
// that it has not reported yet. Preconditions: mu is held.
func (p *Placer) expected(n Node) Node {
	for _, s := range p.placed[n.ID] {
		n.Sessions++
		n.MemoryUsed += s.memory
	}
	return n
}

// rank returns the rank of a node for a session. Preconditions: mu is held.
func (p *Placer) rank(n Node, need Need) rank {
	sent := len(p.placed[n.ID])
	r := rank{
		sessions: n.sessionShare(), load: math.Floor(n.scarcity() * loadSteps), room: roomNone,
	}
	if need.Image != "" && n.Image != need.Image && !slices.Contains(n.Earlier, need.Image) {
		r.image = 1
	}
	switch pack := p.o.Policy == Pack; {
	case !n.HasPlace(need.Memory):
		return r // the node with the least load is best, because it has to evict a session
	case n.Processors >= 1:
		r.room, r.load = roomBusy, math.Log2(n.Processors)
	case pack && (n.Processors >= packedShare || !n.fits(need.Memory, packedShare)):
		r.room = roomReserved
	default:
		r.room = roomFree
	}
	if p.o.Zone != "" && n.Zone != p.o.Zone {
		r.zone = 1
	}
	if len(need.Near) > 0 && !slices.Contains(need.Near, n.ID) {
		r.near = 1
	}
	if n.Ready[need.Language] <= sent && p.o.Policy != Pack {
		r.warm = 1 // Pack would leave the full nodes, which have given their warm sandboxes away
	}
	if p.o.Policy == Pack && r.room == roomFree {
		r.load = 1 // an empty node comes last
		if n.Sessions > 0 {
			r.load = -max(n.sessionShare(), n.memoryShare())
		}
		r.sessions = 0
	}
	return r
}

// best chooses one of the nodes that are in the best class for a session. Preconditions: mu is held,
// and there is a node.
func (p *Placer) best(nodes []Node, need Need) Node {
	all := make([]ranked, len(nodes))
	for i, n := range nodes {
		n = p.expected(n)
		all[i] = ranked{n, p.rank(n, need)}
	}
	first := slices.MinFunc(all, func(a, b ranked) int { return a.rank.class(b.rank) }).rank
	all = slices.DeleteFunc(all, func(x ranked) bool { return x.rank.class(first) != 0 })
	byLoad := func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank.load, b.rank.load),
			cmp.Compare(a.rank.sessions, b.rank.sessions))
	}
	if p.o.Policy == Pack && first.room == roomFree {
		// Nodes are in the order of their names, so all gateways fill the same ones.
		slices.SortStableFunc(all, byLoad)
		return all[rand.IntN(min(1+len(nodes)/packedNodes, len(all)))].node
	}
	if first.room == roomBusy {
		inSteps(all)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return slices.MinFunc(all[:min(spreadChoices, len(all))], byLoad).node
}

// inSteps replaces the loads of busy nodes by the number of whole steps that they are above the least
// one. The average changes while nodes report it, so only large differences count: nodes with nearly
// the same load differ in their sessions only.
func inSteps(all []ranked) {
	least := math.Inf(1)
	for _, x := range all {
		least = min(least, x.rank.load)
	}
	for i := range all {
		all[i].rank.load = math.Floor(all[i].rank.load - least)
	}
}
