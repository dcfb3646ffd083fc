package channel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/internal/usage"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Session is the session that channels belong to.
type Session interface {
	// Acquire announces work, and resumes a paused or hibernated sandbox. The sandbox runs until
	// release is called.
	Acquire(ctx context.Context) (release func(), err error)
	// AcquireOwned is Acquire for input, which clients do not repeat. It waits while the node
	// does not know whether it owns the session.
	AcquireOwned(ctx context.Context) (release func(), err error)
	// Touch records that the session is active.
	Touch()
	// State returns the state as in protocol.Session.
	State() string
	// Lost returns the event that reports the end of a lost session.
	Lost() protocol.Lost
}

// Config has the values of a session that its channels use. They do not change.
type Config struct {
	Session             Session
	ID, Tenant, Subject string
	// Life ends when the session is lost. Its cause is then the error for callers.
	Life context.Context
	// Check checks a request to open a channel. It returns the language of a kernel or program,
	// and the arguments of a process or terminal.
	Check func(protocol.ChannelOpen) (language string, argv []string, err error)
	// Acknowledged is called for each new cell before its execute is answered.
	Acknowledged func(channel string, cell uint32, key string)
	// Audit appends an entry to the audit log.
	Audit func(protocol.AuditEntry)
	// BootLimit limits the start of a kernel, and CellLimit the run time of a cell; 0 means no
	// limit on cells.
	BootLimit, CellLimit time.Duration
	// OutputRate limits the output of each channel, in bytes per second; 0 means no limit.
	OutputRate int64

	Agent  *client.Client
	Router *Router
	Logs   *Logs
	Stats  *stats.Stats
	Meter  *usage.Meter
}

func (c Config) holder() admission.Holder {
	return admission.Holder{Tenant: c.Tenant, Subject: c.Subject}
}

// Set has the channels of one session. Its methods are safe for concurrent use.
type Set struct {
	cfg     Config
	viewers *Viewers
	// opening is held while a channel with an idempotency key is opened.
	opening ctxlock.Lock

	mu       lockorder.Mutex[setRank] // guards all below
	channels map[string]*Channel      // by id
	order    []*Channel               // the oldest first; replaced by each change
	keys     map[string]*Channel      // by idempotency key
	last     int                      // the last number in a channel's id
	reserved int                      // places of channels between reserve and insert
}

// NewSet returns an empty set. Last is the last number that was used in the id of a channel of the
// session.
func NewSet(cfg Config, last int) *Set {
	if cfg.OutputRate > 0 {
		cfg.Router.limiter = newOutputLimiter(cfg.OutputRate, cfg.Agent)
	}
	return &Set{
		cfg: cfg, viewers: newViewers(cfg.ID, cfg.Life), opening: ctxlock.New(),
		channels: map[string]*Channel{}, keys: map[string]*Channel{}, last: last,
	}
}

// Viewers returns the viewers of the session.
func (x *Set) Viewers() *Viewers { return x.viewers }

// Router returns the sink of the session's agent.
func (x *Set) Router() *Router { return x.cfg.Router }

// NewWire returns a number on the agent's wire that was never used.
func (x *Set) NewWire() uint32 { return x.cfg.Router.Number() }

// All returns the channels, the oldest first. The caller does not change the slice.
func (x *Set) All() []*Channel {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.order
}

// maxEnvs is the largest size of the variables in a list of channels, in bytes.
const maxEnvs = 1 << 20

// Views returns the channels as clients see them, the oldest first. If env is set, it adds the
// variables that they were opened with: of the oldest ones, up to maxEnvs.
func (x *Set) Views(env bool) []protocol.Channel {
	all := x.All()
	views := make([]protocol.Channel, len(all))
	left := maxEnvs
	for i, c := range all {
		views[i] = c.View()
		for name, value := range c.env {
			left -= len(name) + len(value)
		}
		if env && left >= 0 {
			views[i].Env = c.env
		}
	}
	return views
}

// Find returns the channel with an id. Errors: NotFound; the cause of Config.Life when the session is
// lost, which may have had the channel.
func (x *Set) Find(id string) (*Channel, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.channels[id]
	if c == nil && x.cfg.Life.Err() != nil {
		return nil, context.Cause(x.cfg.Life)
	}
	if c == nil {
		return nil, &fault.Error{
			Kind: fault.NotFound, Op: "session.channel", Field: "channel",
			Message: "there is no such channel in the session",
		}
	}
	return c, nil
}

// OfWire returns the id of the channel that a number on the agent's wire belongs to, also when the
// first process of that channel has ended; "" for none.
func (x *Set) OfWire(number uint32) string {
	if number == 0 {
		return ""
	}
	if t, ok := x.cfg.Router.get(number); ok {
		return t.channel.id
	}
	for _, c := range x.All() {
		if c.queue == nil && c.wire.Load() == number {
			return c.id
		}
	}
	return ""
}

// Working returns the first channel that keeps the sandbox awake, or nil. Output of terminals after
// since is work.
func (x *Set) Working(ctx context.Context, since time.Time) *Channel {
	for _, c := range x.All() {
		if c.working(ctx, since) {
			return c
		}
	}
	return nil
}

// KernelsWork reports whether a cell runs or waits.
func (x *Set) KernelsWork() bool {
	return slices.ContainsFunc(x.All(),
		func(c *Channel) bool { return c.queue != nil && c.queue.State().Work })
}

// NoteKernels appends an event to the logs of all kernels.
func (x *Set) NoteKernels(event map[string]any) {
	for _, c := range x.All() {
		if c.queue != nil {
			c.Note(event)
		}
	}
}

// add creates a channel with a log and an id. A session has at most protocol.MaxChannels. At this
// limit the oldest channel is removed that has ended and whose readers have got its whole log. Errors:
// Exhausted, and the cause of Config.Life when the session is lost.
func (x *Set) add(r protocol.ChannelOpen, language string, argv []string) (*Channel, error) {
	id, removed, err := x.reserve(r.Kind)
	if err != nil {
		return nil, err
	}
	if removed != nil {
		removed.retire()
	}
	log, err := x.cfg.Logs.Create(x.cfg.holder(), x.cfg.ID, id)
	if err != nil {
		x.unreserve()
		return nil, err
	}
	c := &Channel{
		set: x, id: id, kind: r.Kind, language: language, argv: argv, cwd: r.Cwd, tag: r.Tag,
		env: r.Env, log: log, opened: make(chan struct{}),
	}
	if err := x.insert(c); err != nil {
		c.retire()
		return nil, err
	}
	return c, nil
}

func errFull() error {
	return fault.New(fault.Exhausted, "session.channel",
		"a session has at most %d channels; close one", protocol.MaxChannels).For(fault.CauseLimit)
}

// reserve returns an id, and the channel that it removed to make room. It keeps a place for the new
// channel until insert or unreserve, so that a request that is faster does not take it.
func (x *Set) reserve(kind string) (id string, removed *Channel, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.order)+x.reserved >= protocol.MaxChannels {
		i := slices.IndexFunc(x.order,
			func(c *Channel) bool { return c.ended() && !c.isRead() })
		if i < 0 {
			return "", nil, errFull()
		}
		removed = x.order[i]
		x.deleteLocked(removed)
	}
	x.last++
	x.reserved++
	return fmt.Sprintf("%c%d", kind[0], x.last), removed, nil
}

// unreserve gives up the place of a channel that could not be created.
func (x *Set) unreserve() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reserved--
}

// insert adds a new channel to the lists, in the place that reserve has kept. After the end of
// Config.Life it adds none, so that Lose ends all channels.
func (x *Set) insert(c *Channel) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reserved--
	if x.cfg.Life.Err() != nil {
		return context.Cause(x.cfg.Life)
	}
	x.channels[c.id] = c
	x.order = append(slices.Clone(x.order), c)
	return nil
}

// remove removes a channel from the lists.
func (x *Set) remove(c *Channel) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deleteLocked(c)
}

// deleteLocked removes a channel from the lists, which others may be reading. Preconditions: mu is
// held.
func (x *Set) deleteLocked(c *Channel) {
	delete(x.channels, c.id)
	x.order = slices.DeleteFunc(slices.Clone(x.order), func(o *Channel) bool { return o == c })
	for k, o := range x.keys {
		if o == c {
			delete(x.keys, k)
		}
	}
}

// Lose ends all channels because the sandbox has ended. Preconditions: Config.Life has ended.
func (x *Set) Lose(reason, message string) {
	for _, c := range x.All() {
		c.lose(reason, message)
	}
}

// EndLimits lets output through that waits because of Config.OutputRate.
func (x *Set) EndLimits() {
	if l := x.cfg.Router.limiter; l != nil {
		l.close()
	}
}

// Retire removes all channels, and drops each log as soon as it has no readers.
func (x *Set) Retire() {
	x.mu.Lock()
	all := x.order
	x.order, x.channels, x.keys = nil, map[string]*Channel{}, map[string]*Channel{}
	x.mu.Unlock()
	for _, c := range all {
		c.retire()
	}
	x.cfg.Logs.RemoveDir(x.cfg.ID)
}

// asleep reports whether work would resume the session.
func (x *Set) asleep() bool {
	switch x.cfg.Session.State() {
	case "running", "lost":
		return false
	}
	return true
}

// countInput counts input of a channel.
func (x *Set) countInput(n int) {
	x.cfg.Stats.InputBytes.Add(int64(n))
	x.cfg.Meter.In.Add(int64(n))
}
