package channel

import (
	"context"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// Save ends the channels of a hibernated session, and adds their records to v. Logs keep their
// files.
func (x *Set) Save(ctx context.Context, v *snapshot.Record) error {
	for _, c := range x.begin(v) {
		sc, err := c.save(ctx)
		if err != nil {
			return err
		}
		v.Channels = append(v.Channels, sc)
	}
	return nil
}

// Outline adds the records of the channels to v, without their queues and logs.
func (x *Set) Outline(v *snapshot.Record) {
	for _, c := range x.begin(v) {
		sc := c.header()
		c.state(&sc)
		v.Channels = append(v.Channels, sc)
	}
}

// Capture adds the records of the channels to v, without their logs, and returns forks of the logs
// in the order of the records. The channels continue. Preconditions: the sandbox is paused.
func (x *Set) Capture(ctx context.Context, v *snapshot.Record) ([]*stream.Fork, error) {
	var forks []*stream.Fork
	for _, c := range x.begin(v) {
		sc := c.header()
		if c.queue != nil {
			q, d, err := c.queue.Copy(ctx, x.outstanding)
			if err != nil {
				return nil, err
			}
			if d, ok := d.(*driver); ok {
				sc.Wire = d.wire
			}
			sc.Queue = &q
		}
		forks = append(forks, c.log.Fork())
		c.state(&sc)
		v.Channels = append(v.Channels, sc)
	}
	return forks, nil
}

// begin records the keys and the last number, and returns the channels of the same moment.
func (x *Set) begin(v *snapshot.Record) []*Channel {
	x.mu.Lock()
	defer x.mu.Unlock()
	v.Numbers, v.Keys = x.last, map[string]string{}
	for key, c := range x.keys {
		v.Keys[key] = c.id
	}
	return x.order
}

// RecordWires records which number on the agent's wire belongs to which channel.
func (x *Set) RecordWires(v *snapshot.Record) { v.Wires, v.NextWire = x.cfg.Router.record() }

func (c *Channel) save(ctx context.Context) (snapshot.Channel, error) {
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
	if v.Log, err = c.set.cfg.Logs.Save(c.log); err != nil {
		return v, err
	}
	c.state(&v)
	return v, nil
}

// header records the values of a channel that do not change.
func (c *Channel) header() snapshot.Channel {
	return snapshot.Channel{
		ID: c.id, Kind: c.kind, Language: c.language, Argv: c.argv, Env: c.env, Cwd: c.cwd,
		Tag: c.tag, PID: int(c.pid.Load()), InputEnded: c.inputEnded.Load(),
		Wire: c.wire.Load(),
	}
}

// state records the state of a channel without its queue and its log.
func (c *Channel) state(v *snapshot.Channel) {
	if c.terminal != nil {
		v.Terminal = c.terminal.record()
	}
	if c.service != nil {
		v.Argv, v.Service = c.service.record()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v.Exit, v.Kept = c.exit, c.kept
	for _, w := range c.order {
		w.mu.Lock()
		v.Writers = append(v.Writers, snapshot.Writer{Name: w.name, Taken: w.taken, Guard: w.guard})
		w.mu.Unlock()
	}
}

func (t *terminal) record() *snapshot.Terminal {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := &snapshot.Terminal{
		Shell: t.shell, Driven: t.driven, Screen: t.scan.State(),
		Since: t.since,
	}
	for _, m := range t.marks {
		v.Marks = append(v.Marks, snapshot.Mark{Offset: m.offset, State: m.state})
	}
	return v
}

// Restore creates the channels of a record and opens their logs. Nothing runs in the channels until
// Connect. After an error the caller calls DropLogs. Preconditions: the set is empty, and nothing
// else uses it.
func (x *Set) Restore(v snapshot.Record) error {
	for _, sc := range v.Channels {
		l, err := x.cfg.Logs.Open(x.cfg.holder(), x.cfg.ID, sc.ID, sc.Log)
		if err != nil {
			return err
		}
		c := x.restored(sc, l, !v.Recovered.IsZero())
		x.mu.Lock()
		x.channels[c.id] = c
		x.order = append(x.order, c)
		x.mu.Unlock()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, id := range v.Keys {
		if c := x.channels[id]; c != nil {
			x.keys[key] = c
			c.separate.Store(c.kind == "kernel" && !isDefaultKey(key, c.language, c.language))
		}
	}
	return nil
}

// DropLogs removes the logs of a restored set that was not connected.
func (x *Set) DropLogs() {
	for _, c := range x.All() {
		x.cfg.Logs.Drop(c.log)
	}
	x.cfg.Logs.RemoveDir(x.cfg.ID)
}

// restored returns a channel without a queue and without a number on the wire. Loose is the field
// of its writers.
func (x *Set) restored(v snapshot.Channel, l *stream.Log, loose bool) *Channel {
	c := &Channel{
		set: x, id: v.ID, kind: v.Kind, language: v.Language, argv: v.Argv, env: v.Env, cwd: v.Cwd,
		log: l, tag: v.Tag, kept: v.Kept,
		loose: loose, opened: make(chan struct{}), exit: v.Exit, writers: map[string]*writer{},
	}
	c.pid.Store(int64(v.PID))
	c.inputEnded.Store(v.InputEnded)
	if len(v.Note) > 0 {
		_, _ = l.Append(frame.KindEvent, 0, v.Note) // fails only when the log has ended
	}
	if c.exit != nil {
		c.endLog(*c.exit) // the channel may have been saved just before its log ended
	}
	for _, w := range v.Writers {
		c.writers[w.Name] = &writer{name: w.Name, taken: w.Taken, guard: w.Guard, loose: loose}
		c.order = append(c.order, c.writers[w.Name])
	}
	if v.Service != nil {
		c.service = restoreService(v)
	}
	if t := v.Terminal; t != nil {
		c.terminal = newTerminal(t.Screen.Size, t.Shell)
		c.terminal.driven, c.terminal.since, c.terminal.scan = t.Driven, t.Since,
			pty.ResumeScanner(t.Screen)
		for _, m := range t.Marks {
			c.terminal.marks = append(c.terminal.marks, mark{m.Offset, m.State})
		}
	}
	return c
}

// Connect connects the restored channels of a record with the agent's wire, and starts their
// queues, which may begin to work at once. Preconditions: Restore has returned without an error.
func (x *Set) Connect(v snapshot.Record) {
	for i, c := range x.All() {
		c.connect(v.Channels[i], v.Wires)
	}
}

func (c *Channel) connect(v snapshot.Channel, wires map[uint32]string) {
	defer close(c.opened)
	cfg := &c.set.cfg
	o := c.queueOptions()
	o.Saved = v.Queue
	if v.Queue == nil {
		c.wire.Store(v.Wire)
	}
	for n, id := range wires {
		if id != c.id {
			continue
		}
		t := target{channel: c}
		if c.service != nil && n == v.Wire {
			c.service.rejoin()
		}
		if v.Queue != nil {
			t.driver = &driver{channel: c, wire: n}
			if n == v.Wire {
				o.Driver, o.Rejoin = t.driver, cfg.Agent.Kernels.Rejoin(n)
			}
		}
		cfg.Router.set(n, t)
	}
	if v.Queue != nil {
		c.queue = queue.New(o)
	}
}
