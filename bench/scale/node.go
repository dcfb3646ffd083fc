package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// sessionLife is how long the directory keeps a session that nobody ends.
const sessionLife = 24 * time.Hour

// nodeMemory is the memory of a node's sandboxes. A session uses smallSession of it, and every tenth
// one, by chance, largeSession.
const nodeMemory, smallSession, largeSession = 256 << 30, 64 << 20, 2 << 30

// leaveWait is how long a node that has left still answers, as a real one does.
const leaveWait = cluster.NodesLife + 100*time.Millisecond

// node is a simulated node.
type node struct {
	id        cluster.NodeID
	holder    *cluster.LeaseHolder
	admission *admission.Controller
	parked    *parked
	work      sync.WaitGroup
	beats     sync.WaitGroup
	endBeats  context.CancelFunc
	end       context.CancelFunc // ends its heartbeats, reports and links

	mu       sync.Mutex // guards all below; a leaf
	sessions map[string]string
	uses     map[string]int
	made     int
	used     int64 // the memory of sessions
}

// parked are the sessions in the blob store, with their tenants.
type parked struct {
	mu  sync.Mutex // guards all
	all map[string]string
}

// startNode starts a node that listens on a socket. earlier has its sessions of an earlier process.
func startNode(ctx context.Context, s *simulation, id cluster.NodeID, address string,
) (*node, error) {
	k := &node{id: id, parked: &s.parked, sessions: map[string]string{}, uses: map[string]int{}}
	var err error
	k.holder, err = cluster.NewLeaseHolder(s.directory(), cluster.LeaseHolderOptions{
		Reclaimed: func(cluster.SessionID) { s.reclaimed.Add(1) },
		Node:      id, Instance: fmt.Sprint(id, "-", time.Now().UnixNano()), Lease: s.o.lease,
		Info: func() cluster.NodeInfo {
			return cluster.NodeInfo{
				Address: address, Sessions: k.Sandboxes(), Most: s.o.sessions,
				Memory: nodeMemory, MemoryUsed: k.memory(),
			}
		},
	})
	if err != nil {
		return nil, err
	}
	k.admission = admission.New(admission.Config{
		Node: k, Evictor: k, MaxSessions: s.o.sessions, Queue: 100, QueueWait: 10 * time.Second,
		Tenants: s.tenants, Ledger: k.holder, Refused: func(string, string) {},
	})
	ln, err := net.Listen("unix", address)
	if err != nil {
		return nil, err
	}
	ctx, k.end = context.WithCancel(ctx)
	k.holder.Heartbeat(ctx)
	beating, endBeats := context.WithCancel(ctx)
	k.endBeats = endBeats
	k.beats.Go(func() { k.holder.Run(beating) })
	k.work.Go(k.admission.Run)
	k.work.Go(func() { _ = noderpc.Serve(ctx, ln, k, nil) })
	return k, nil
}

// stop ends the node without a word to the directory.
func (k *node) stop() {
	k.end()
	k.admission.Close()
	k.beats.Wait()
	k.work.Wait()
}

// signOff ends the node after its sessions have left it.
func (k *node) signOff(ctx context.Context) error {
	k.endBeats()
	k.beats.Wait()
	if err := k.holder.EndLease(ctx); err != nil {
		return err
	}
	time.Sleep(leaveWait)
	k.stop()
	return nil
}

// Sandboxes implements admission.Node.
func (k *node) Sandboxes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.sessions)
}

// MemoryShort implements admission.Node.
func (k *node) MemoryShort() bool { return false }

// SessionUse implements admission.Node.
func (k *node) SessionUse(name, _ string) (all, own tenant.Use) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.uses[name]
	return tenant.Use{Sessions: n, Running: n}, own
}

// SnapshotUse implements admission.Node.
func (k *node) SnapshotUse(string, string) (all, own tenant.Use) { return all, own }

// Holders implements admission.Node.
func (k *node) Holders() (all []admission.Holder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.uses {
		all = append(all, admission.Holder{Tenant: name})
	}
	return all
}

// EvictIdle implements admission.Evictor.
func (k *node) EvictIdle(context.Context, string) bool { return false }

// ServeLink implements noderpc.Handler.
func (k *node) ServeLink(ctx context.Context, l *noderpc.Link) error {
	for {
		l.Wait()
		f, err := l.Next()
		if err != nil {
			return err
		}
		var r protocol.Request
		if err := json.Unmarshal(f.Body, &r); err != nil {
			return err
		}
		reply := protocol.Reply{ID: r.ID}
		result, err := k.carryOut(ctx, l.Principal(), r)
		if err == nil {
			reply.Result, err = json.Marshal(result)
		}
		if err != nil {
			p := fault.PublicOf(err)
			reply.Error = &p
		}
		body, err := json.Marshal(reply)
		if err != nil {
			return err
		}
		if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
			return err
		}
	}
}

// carryOut carries out the operations of the measurements.
func (k *node) carryOut(ctx context.Context, who noderpc.Principal, r protocol.Request,
) (any, error) {
	switch r.Op {
	case protocol.OpSessionCreate:
		return k.newSession(ctx, who.Tenant)
	case protocol.OpSessionList:
		return k.list(who.Tenant), nil
	case protocol.OpParked:
		return protocol.SessionList{Sessions: []protocol.Session{}}, nil
	}
	var ref protocol.SessionRef
	if err := json.Unmarshal(r.Params, &ref); err != nil {
		return nil, err
	}
	if r.Op == protocol.OpAdopt {
		return k.adopt(ctx, ref.Session)
	}
	if _, owns := k.holder.Owns(cluster.SessionID(ref.Session)); !owns {
		return nil, cluster.NoSession(r.Op)
	}
	return protocol.Session{ID: ref.Session}, nil
}

func (k *node) newSession(ctx context.Context, name string) (protocol.Session, error) {
	const op = protocol.OpSessionCreate
	use := admission.ForSession(admission.Holder{Tenant: name}, tenant.Use{Running: 1})
	place, err := k.admission.Reserve(ctx, op, "the node is full", use, func() error { return nil })
	if err != nil {
		return protocol.Session{}, err
	}
	defer place.Release()
	k.mu.Lock()
	k.made++
	id := fmt.Sprintf("s_%s_%d_%d", k.id, time.Now().UnixNano(), k.made)
	k.mu.Unlock()
	if _, err := k.holder.Own(ctx, cluster.SessionID(id), cluster.ClaimNew, 0,
		time.Now().Add(sessionLife)); err != nil {
		return protocol.Session{}, err
	}
	place.Use(func() { k.add(id, name) })
	return protocol.Session{ID: id}, nil
}

// memory returns the memory of the node's sessions.
func (k *node) memory() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}

func (k *node) add(id, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used += smallSession
	if rand.IntN(10) == 0 {
		k.used += largeSession - smallSession
	}
	k.sessions[id] = name
	k.uses[name]++
}

func (k *node) list(name string) protocol.SessionList {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := protocol.SessionList{Sessions: []protocol.Session{}}
	if k.uses[name] == 0 {
		return l
	}
	for id, of := range k.sessions {
		if of == name {
			l.Sessions = append(l.Sessions, protocol.Session{ID: id, State: "running"})
		}
	}
	return l
}

func (k *node) adopt(ctx context.Context, id string) (protocol.Session, error) {
	k.parked.mu.Lock()
	name, there := k.parked.all[id]
	k.parked.mu.Unlock()
	if !there {
		return protocol.Session{}, cluster.NoSession(protocol.OpAdopt)
	}
	if _, err := k.holder.Own(ctx, cluster.SessionID(id), cluster.ClaimTakeOver, 0,
		time.Now().Add(sessionLife)); err != nil {
		return protocol.Session{}, err
	}
	k.add(id, name)
	return protocol.Session{ID: id}, nil
}

// park releases all sessions, as a drain does.
func (k *node) park(ctx context.Context) ([]string, error) {
	k.mu.Lock()
	all := k.sessions
	k.sessions, k.uses, k.used = map[string]string{}, map[string]int{}, 0
	k.mu.Unlock()
	ids := make([]string, 0, len(all))
	for id, name := range all {
		k.parked.mu.Lock()
		k.parked.all[id] = name
		k.parked.mu.Unlock()
		if err := k.holder.Release(ctx, cluster.SessionID(id), cluster.ReleaseInfo{}); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// owned returns how many of its sessions the node owns.
func (k *node) owned() (n, of int) {
	k.mu.Lock()
	all := make([]string, 0, len(k.sessions))
	for id := range k.sessions {
		all = append(all, id)
	}
	k.mu.Unlock()
	for _, id := range all {
		if _, owns := k.holder.Owns(cluster.SessionID(id)); owns {
			n++
		}
	}
	return n, len(all)
}
