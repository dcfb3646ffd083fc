package session

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

func (m *Manager) savedFile(id string) string { return filepath.Join(m.sessionDir(id), "session.json") }

// save hibernates the session for the next process, and ends it in this one
// without a word to its queues and logs. After an error it is to be lost.
func (s *Session) save(ctx context.Context) error {
	release, err := s.acquireIdle(ctx)
	if err != nil {
		return err
	}
	if works := s.working(ctx); works {
		s.mu.Lock()
		s.status.Works = true
		s.mu.Unlock()
	}
	if err := s.hibernateLocked(ctx); err != nil {
		release()
		return err
	}
	// From here on lifecycle is not released: nothing begins any more.
	s.sealed = true
	_ = os.Remove(s.reserved())
	v, err := s.record(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, "session.save", err)
	}
	if err := atomicfile.Write(s.m.savedFile(s.spec.ID), data); err != nil {
		return fault.Wrap(fault.Host, "session.save", err)
	}
	s.copies.Close(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.conclude("restarting", "the node is stopping") {
		return os.RemoveAll(s.m.sessionDir(s.spec.ID))
	}
	close(s.settled)
	return nil
}

// reserved is a file that takes the room which save needs once the snapshot has
// been written: there is no way back then, and the oldest output would go.
func (s *Session) reserved() string { return filepath.Join(s.m.sessionDir(s.spec.ID), "room") }

// recordRoom is what is written beside the logs: what was typed and asked.
const recordRoom = 4 << 20

// reserve keeps that room. It is DiskFull where there is none.
func (s *Session) reserve() error {
	const op = "session.save"
	s.mu.Lock()
	n := int64(len(s.order))*s.m.cfg.LogMemory + recordRoom
	s.mu.Unlock()
	dir := s.m.sessionDir(s.spec.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	f, err := os.OpenFile(s.reserved(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, 0, n)
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = nil // on such a filesystem one has to hope
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(s.reserved())
	_ = os.Remove(dir) // fails where a snapshot is in it
	if errors.Is(err, unix.ENOSPC) {
		return &fault.Error{Kind: fault.DiskFull, Op: op, Message: "there is no space for what the session has put out", Err: err}
	}
	return fault.Wrap(fault.Host, op, err)
}

// record ends all that belongs to a hibernated session, and notes it.
func (s *Session) record(ctx context.Context) (*snapshot.Record, error) {
	v, all := s.header()
	for _, c := range all {
		sc, err := c.record(ctx)
		if err != nil {
			return nil, err
		}
		v.Channels = append(v.Channels, sc)
	}
	var err error
	if v.Agent, err = s.agent.Save(ctx); err != nil {
		return nil, err
	}
	s.wires(v)
	return v, nil
}

// header notes the session but for its channels and wire, and returns them.
func (s *Session) header() (*snapshot.Record, []*Channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &snapshot.Record{
		Version: snapshot.Version, Spec: s.spec, Status: s.status, Keys: map[string]string{}, Wires: map[uint32]string{},
	}
	v.Token = s.m.owner.Token(s.spec.ID)
	for key, c := range s.keys {
		v.Keys[key] = c.id
	}
	v.Network, v.Moved = s.egress.State()
	return v, s.order
}

// wires notes which number on the wire leads to which channel.
func (s *Session) wires(v *snapshot.Record) {
	s.router.mu.RLock()
	defer s.router.mu.RUnlock()
	for n, t := range s.router.targets {
		v.Wires[n] = t.channel.id
	}
	v.NextWire = s.router.next
}

func (c *Channel) record(ctx context.Context) (snapshot.Channel, error) {
	<-c.opened
	v := c.header()
	if c.queue != nil {
		q, d, err := c.queue.Save(ctx)
		if err != nil {
			return v, err
		}
		v.Queue = &q
		if d, ok := d.(*driver); ok {
			v.Wire = d.wire
		}
	}
	var err error
	if v.Log, err = c.session.m.logs.Save(c.log); err != nil {
		return v, err
	}
	c.state(&v)
	return v, nil
}

// header notes what does not change of a channel.
func (c *Channel) header() snapshot.Channel {
	return snapshot.Channel{ID: c.id, Kind: c.kind, Language: c.language, Argv: c.argv, Env: c.env, Cwd: c.cwd, Wire: c.wire}
}

// state notes what the channel is beside its queue and its log.
func (c *Channel) state(v *snapshot.Channel) {
	if t := c.terminal; t != nil {
		t.mu.Lock()
		v.Terminal = &snapshot.Terminal{Shell: t.shell, Driven: t.driven, Screen: t.scan.State(), Since: t.since}
		for _, m := range t.marks {
			v.Terminal.Marks = append(v.Terminal.Marks, snapshot.Mark{Offset: m.offset, State: m.state})
		}
		t.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v.Exit = c.exit
	for _, w := range c.order {
		w.mu.Lock()
		v.Writers = append(v.Writers, snapshot.Writer{Name: w.name, Taken: w.taken, Guard: w.guard})
		w.mu.Unlock()
	}
}

// load finds the sessions that the process before has saved, and removes what
// is left of others.
func (m *Manager) load() error {
	entries, err := os.ReadDir(m.sessionsDir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		s, err := m.revive(e.Name())
		if err == nil {
			m.list(s)
			s.measureDisk()
			continue
		}
		if !strings.HasSuffix(e.Name(), wokenSuffix) {
			m.log.Warn("a session of before is lost", "session", e.Name(), "error", err)
		}
		if err := os.RemoveAll(m.sessionDir(e.Name())); err != nil {
			return err
		}
	}
	if err := m.recoverAll(); err != nil {
		return err
	}
	if len(m.sessions) > 0 {
		m.log.Info("found hibernated sessions", "sessions", len(m.sessions))
	}
	return m.logs.Sweep(func(id string) bool { return m.sessions[id] != nil })
}

// revive makes a session of its file.
func (m *Manager) revive(id string) (*Session, error) {
	const op = "session.load"
	data, err := os.ReadFile(m.savedFile(id))
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, op, err)
	}
	var v snapshot.Record
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fault.Wrap(fault.Malformed, op, err)
	}
	if v.Version != snapshot.Version || v.ID != id {
		return nil, fault.New(fault.Unsupported, op, "the file is of version %d, and of session %s", v.Version, v.ID)
	}
	s, err := m.assemble(v)
	if err == nil {
		s.connectAll(v)
	}
	return s, err
}

// assemble makes a hibernated session, but for what runs in its channels.
func (m *Manager) assemble(v snapshot.Record) (*Session, error) {
	h, err := m.volumes.Hold(v.Tenant, v.Volumes, len(v.Volumes))
	if err != nil {
		return nil, err
	}
	sink := newFrameRouter(m.stats, v.NextWire)
	s := newSession(m, v.Spec, v.Status, hibernated, h, sink, client.Restore(v.Agent, sink))
	if err := s.enableEgress(v.Network, v.Moved); err != nil {
		s.dismantle()
		return nil, err
	}
	for _, sc := range v.Channels {
		l, err := m.logs.Open(s.spec.ID, sc.ID, sc.Log)
		if err != nil {
			s.dismantle()
			return nil, err
		}
		c := s.reviveChannel(sc, l)
		c.loosen(!v.Recovered.IsZero())
		s.channels[c.id] = c
		s.order = append(s.order, c)
	}
	for key, id := range v.Keys {
		if c := s.channels[id]; c != nil {
			s.keys[key] = c
		}
	}
	return s, nil
}

// dismantle frees what a session holds that was assembled and not connected.
func (s *Session) dismantle() {
	s.volumes.Release()
	s.agent.End()
	for _, c := range s.order {
		s.m.logs.Drop(c.log)
	}
	s.m.logs.RemoveDir(s.spec.ID)
}

// connectAll connects the channels. Queues last: one may begin to work at once.
func (s *Session) connectAll(v snapshot.Record) {
	for i, c := range s.order {
		s.connect(c, v.Channels[i], v.Wires)
	}
}

// reviveChannel makes a channel but for what runs in it.
func (s *Session) reviveChannel(v snapshot.Channel, l *stream.Log) *Channel {
	c := &Channel{
		session: s, id: v.ID, kind: v.Kind, language: v.Language, argv: v.Argv, env: v.Env, cwd: v.Cwd, log: l,
		opened: make(chan struct{}), exit: v.Exit, writers: map[string]*writer{},
	}
	if c.exit != nil {
		c.endLog(*c.exit) // it may have been saved just before that
	}
	for _, w := range v.Writers {
		c.writers[w.Name] = &writer{name: w.Name, taken: w.Taken, guard: w.Guard}
		c.order = append(c.order, c.writers[w.Name])
	}
	if t := v.Terminal; t != nil {
		c.terminal = newTerminal(t.Screen.Size, t.Shell)
		c.terminal.driven, c.terminal.since, c.terminal.scan = t.Driven, t.Since, pty.ResumeScanner(t.Screen)
		for _, m := range t.Marks {
			c.terminal.marks = append(c.terminal.marks, mark{m.Offset, m.State})
		}
	}
	return c
}

// loosen lets the writers of a channel that came back go on where they are.
func (c *Channel) loosen(is bool) {
	c.loose = is
	for _, w := range c.order {
		w.loose = is
	}
}

// connect connects a channel to its numbers on the wire, and starts its queue.
func (s *Session) connect(c *Channel, v snapshot.Channel, wires map[uint32]string) {
	defer close(c.opened)
	o := queue.Options{Log: c.log, Start: s.starter(c, v.Env, v.Cwd), Saved: v.Queue, Changed: s.Touch, Ended: c.cellEnded, Limit: s.cellLimit()}
	if v.Queue == nil {
		c.wire = v.Wire
	}
	for n, id := range wires {
		if id != c.id {
			continue
		}
		t := target{channel: c}
		if v.Queue != nil {
			t.driver = &driver{session: s, channel: c, wire: n}
			if n == v.Wire {
				o.Driver, o.Rejoin = t.driver, s.agent.Kernels.Rejoin(n)
			}
		}
		s.router.set(n, t)
	}
	if v.Queue != nil {
		c.queue = queue.New(o)
	}
}

// saveAll saves the sessions within the shutdown limit. Those that it cannot
// are lost.
func (m *Manager) saveAll(all []*Session) {
	ctx, cancel := context.WithTimeout(context.Background(), max(m.cfg.ShutdownLimit, 0))
	defer cancel()
	turns := make(chan struct{}, m.cfg.PoolParallel)
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if s.IsLost() {
				return
			}
			if err := s.save(ctx); err != nil && !s.IsLost() {
				m.log.Warn("a session could not be hibernated and is lost", "session", s.spec.ID, "error", err)
			}
			s.lose("restarting", "the node is stopping")
		})
	}
	wg.Wait()
}
