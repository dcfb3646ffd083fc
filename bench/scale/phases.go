package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// probes is how many lists and look-ups are measured. restarted is how many nodes are
	// restarted one after another.
	probes, restarted = 500, 3
	// waitLimit bounds the wait for a state.
	waitLimit = 5 * time.Minute
	pollEvery = 50 * time.Millisecond
)

func (s *simulation) tenant(i int) noderpc.Principal {
	return noderpc.Principal{Tenant: fmt.Sprint("tenant-", i%s.o.tenants)}
}

func (s *simulation) call(
	ctx context.Context, i int, op string, params, result any,
) error {
	return s.routers[i%len(s.routers)].Call(ctx, s.tenant(i), op, params, result)
}

// createAll creates all sessions.
func (s *simulation) createAll(ctx context.Context, r *report) error {
	before, err := s.redisUse(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	all, err := s.each(s.o.sessions, func(i int) error {
		return s.call(ctx, i, protocol.OpSessionCreate, protocol.SessionCreate{}, nil)
	})
	if err != nil {
		return err
	}
	r.add("sessions", "%d", s.o.sessions)
	r.add("creations in a second", "%.0f", float64(len(all))/time.Since(begin).Seconds())
	r.addTimes("create", all)
	now, err := s.redisUse(ctx)
	if err != nil {
		return err
	}
	r.add("processor of Redis for a creation", "%.0f µs",
		1e6*(now.cpu-before.cpu)/float64(len(all)))
	most, least := 0, s.o.sessions
	mostMemory, leastMemory := int64(0), int64(nodeMemory)
	for _, k := range s.nodes {
		n, memory := k.Sandboxes(), k.memory()
		most, least = max(most, n), min(least, n)
		mostMemory, leastMemory = max(mostMemory, memory), min(leastMemory, memory)
	}
	r.add("sessions of a node", "%d to %d", least, most)
	r.add("memory of a node's sessions", "%d to %d GiB", leastMemory>>30, mostMemory>>30)
	return nil
}

// rest measures heartbeats and reports of quotas while nothing changes.
func (s *simulation) rest(ctx context.Context, r *report) error {
	before, err := s.redisUse(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(s.o.steady):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.addLoad(ctx, r, "rest", before); err != nil {
		return err
	}
	now, err := s.redisUse(ctx)
	if err != nil {
		return err
	}
	r.add("rest: commands in a second", "%.0f",
		(now.commands-before.commands)/now.at.Sub(before.at).Seconds())
	r.add("memory of Redis", "%.1f MB", now.memory/1e6)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.add("heap of all nodes and gateways", "%.0f MB", float64(m.HeapAlloc)/1e6)
	return nil
}

// lists measures lists of sessions, one at a time.
func (s *simulation) lists(ctx context.Context, r *report) error {
	before, err := s.redisUse(ctx)
	if err != nil {
		return err
	}
	var all []time.Duration
	for i := range probes {
		begin := time.Now()
		var l protocol.SessionList
		if err := s.call(ctx, i, protocol.OpSessionList, struct{}{}, &l); err != nil {
			return err
		}
		all = append(all, time.Since(begin))
		want := (s.o.sessions + s.o.tenants - 1 - i%s.o.tenants) / s.o.tenants
		if len(l.Sessions) != want {
			return fmt.Errorf("a list has %d sessions, want %d", len(l.Sessions), want)
		}
	}
	r.addTimes("list", all)
	now, err := s.redisUse(ctx)
	if err != nil {
		return err
	}
	r.add("processor of nodes and gateways for a list", "%.1f ms", 1e3*(now.own-before.own)/probes)
	begin := time.Now()
	if _, err := s.each(4*probes, func(i int) error {
		return s.call(ctx, i, protocol.OpSessionList, struct{}{}, nil)
	}); err != nil {
		return err
	}
	r.add("lists in a second", "%.0f", 4*probes/time.Since(begin).Seconds())
	return nil
}

// finds measures requests for sessions that a gateway does not know.
func (s *simulation) finds(ctx context.Context, r *report) error {
	var all []time.Duration
	for i := range probes {
		k := s.nodes[rand.IntN(len(s.nodes))]
		begin := time.Now()
		if err := s.call(ctx, i, protocol.OpSessionGet, protocol.SessionRef{Session: k.any()},
			nil); err != nil {
			return err
		}
		all = append(all, time.Since(begin))
	}
	r.addTimes("first request for a session", all)
	return nil
}

// any returns one of the node's sessions.
func (k *node) any() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.sessions {
		return id
	}
	return ""
}

// useAgain uses sessions, so that nodes adopt those that have no node.
func (s *simulation) useAgain(ctx context.Context, ids []string) ([]time.Duration, error) {
	return s.each(len(ids), func(i int) error {
		for begin := time.Now(); ; {
			err := s.call(ctx, i, protocol.OpSessionGet, protocol.SessionRef{Session: ids[i]}, nil)
			if !fault.Is(err, fault.Unavailable) || time.Since(begin) > waitLimit {
				return err
			}
			time.Sleep(pollEvery)
		}
	})
}

// rollout restarts some nodes one after another. Their sessions move to the others.
func (s *simulation) rollout(ctx context.Context, r *report) error {
	var drains, resumes []time.Duration
	failed := 0
	for i := range restarted {
		k := s.nodes[i]
		begin := time.Now()
		ids, err := k.park(ctx)
		if err != nil {
			return err
		}
		drains = append(drains, time.Since(begin))
		if err := k.signOff(ctx); err != nil {
			return err
		}
		for n := range 20 {
			if err := s.call(ctx, n, protocol.OpSessionList, struct{}{}, nil); err != nil {
				failed++
			}
		}
		took, err := s.useAgain(ctx, ids)
		if err != nil {
			return err
		}
		resumes = append(resumes, took...)
		address := filepath.Join(s.dir, string(k.id))
		if s.nodes[i], err = startNode(ctx, s, k.id, address); err != nil {
			return err
		}
	}
	r.addTimes("restart: sessions of a node leave the directory", drains)
	r.addTimes("restart: resume on another node", resumes)
	r.add("restart: failed lists", "%d of %d", failed, 20*restarted)
	return nil
}

// failover promotes a replica that lacks the last claims.
func (s *simulation) failover(ctx context.Context, r *report) error {
	all := 0
	for _, k := range s.nodes {
		all += k.Sandboxes()
	}
	var before load
	if err := s.promote(ctx, func() (err error) {
		if before, err = s.redisUse(ctx); err != nil {
			return err
		}
		_, err = s.each(probes, func(i int) error {
			return s.call(ctx, i, protocol.OpSessionCreate, protocol.SessionCreate{}, nil)
		})
		return err
	}); err != nil {
		return err
	}
	s.reclaimed.Store(0)
	begin := time.Now()
	if err := s.wait(ctx, func() bool {
		return s.reclaimed.Load() >= int64(all+probes)
	}); err != nil {
		return err
	}
	r.add("failover: all sessions are claimed again after", "%.1f s", time.Since(begin).Seconds())
	now, err := s.redisUse(ctx)
	if err != nil {
		return err
	}
	r.add("failover: processor of Redis", "%.1f s", now.cpu)
	r.add("failover: processor of all nodes and gateways", "%.1f s", now.own-before.own)
	lost := 0
	for _, k := range s.nodes {
		n, of := k.owned()
		lost += of - n
	}
	r.add("failover: lost sessions", "%d of %d", lost, all+probes)
	return s.wait(ctx, func() bool {
		return s.call(ctx, 0, protocol.OpSessionList, struct{}{}, nil) == nil
	})
}

func (s *simulation) wait(ctx context.Context, is func() bool) error {
	for begin := time.Now(); !is(); {
		if time.Since(begin) > waitLimit {
			return errTime
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// lostZone stops a third of the nodes at one moment. The others take their sessions over.
func (s *simulation) lostZone(ctx context.Context, r *report) error {
	var ids []string
	for _, k := range s.nodes[:len(s.nodes)/3] {
		k.stop()
		for id, name := range k.sessions {
			s.parked.all[id] = name // the copies of durable sessions
			ids = append(ids, id)
		}
	}
	begin := time.Now()
	if err := s.wait(ctx, func() bool {
		return s.call(ctx, 0, protocol.OpSessionList, struct{}{}, nil) == nil
	}); err != nil {
		return err
	}
	r.add("lost third: lists answer again after", "%.1f s", time.Since(begin).Seconds())
	if _, err := s.useAgain(ctx, ids); err != nil {
		return err
	}
	r.add("lost third: all its sessions are on other nodes after", "%.1f s",
		time.Since(begin).Seconds())
	r.add("lost third: sessions", "%d", len(ids))
	return nil
}
