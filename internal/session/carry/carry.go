// Package carry moves durable sessions of an earlier edition, whose time is over, to the current one.
// The memory of a session cannot be moved, so its files are: from the session's sandbox to a new one.
// Package edition determines which editions end.
package carry

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	op = "session.carry"
	// restLimit bounds the wait until no request is under way in a session.
	restLimit = time.Minute
	// limit bounds the remaining work on one session. A lost session is listed for longer.
	limit = 5 * time.Minute
	// reopenLimit bounds the time until the session is there again, with a new copy.
	reopenLimit = time.Minute
	// maxTries is how often a session is tried. A try counts unless the node was full or the session
	// was used.
	maxTries = 3
)

// Sessions are the sessions of a node.
type Sessions interface {
	// All returns all sessions, and false when the node is closing.
	All() ([]migrate.Movable, bool)
	// BeginWork delays the closing of the node until end is called. ok is false when the node is
	// closing.
	BeginWork(id string) (s migrate.Movable, end func(), ok bool)
	// Reopen opens a frozen session again from its folder, in the place of old, and makes a copy of
	// it. copied is the number of its newest copy.
	Reopen(ctx context.Context, old migrate.Movable, copied int) error
}

// Sandboxes provides the sandboxes of the current edition. Pools implements it.
type Sandboxes interface {
	// Place waits for a place for the sandbox of a session, and keeps it until release is called.
	Place(ctx context.Context, v *snapshot.Record) (release func(), err error)
	// Claim returns a sandbox from the session's template.
	Claim(ctx context.Context, v *snapshot.Record) (*warm.Instance, error)
	// Discard destroys a sandbox, which may have ended.
	Discard(i *warm.Instance)
}

// Backend is the part of sandbox.Backend that restores the sandboxes of earlier editions.
type Backend interface {
	Restore(ctx context.Context, dir string, spec sandbox.Spec,
		o sandbox.RestoreOptions) (sandbox.Machine, error)
	Edition(dir string) (string, error)
	Capabilities() sandbox.Capabilities
}

// Config is the configuration of a Carrier. All fields are required.
type Config struct {
	Sessions  Sessions
	Sandboxes Sandboxes
	Backend   Backend
	Volumes   *volume.Store
	// Folder returns the folder of a hibernated session. Temporary returns the name of a new folder
	// on the same file system.
	Folder    func(id string) string
	Temporary func() string
	// Context ends when the node closes.
	Context context.Context
	Stats   *stats.Stats
	Log     *slog.Logger
}

// Carrier carries sessions over. One goroutine uses it.
type Carrier struct {
	cfg Config
	// renew makes a frozen session one of the current edition. Tests replace it.
	renew func(ctx context.Context, id string) error
	// tries counts the failures of sessions.
	tries map[string]int
}

// New returns a Carrier.
func New(cfg Config) *Carrier {
	c := &Carrier{cfg: cfg, tries: map[string]int{}}
	c.renew = c.renewFolder
	return c
}

// Carry carries over the durable sessions whose edition ends, one after another, until ctx ends.
// Unless it is urgent, it leaves sessions that run. It returns how many have to be carried over
// still. A session that has failed maxTries times is not among them.
func (c *Carrier) Carry(ctx context.Context, ends func(edition string) bool,
	urgent bool,
) (left int) {
	all, open := c.cfg.Sessions.All()
	before := c.tries
	c.tries = map[string]int{}
	for _, s := range all {
		d, v := s.Describe(), s.View()
		tries := before[d.ID]
		if tries > 0 {
			c.tries[d.ID] = tries
		}
		if !d.Durable || s.Life().Err() != nil || tries >= maxTries || !ends(c.edition(v)) {
			continue
		}
		left++
		if d.Moving || !open || v.State == "running" && !urgent || ctx.Err() != nil {
			continue
		}
		begin := time.Now()
		if err := c.carry(ctx, s, d); err != nil {
			if !temporary(err) {
				tries++
				c.tries[d.ID] = tries
			}
			c.cfg.Stats.CarryFailed.Add(1)
			c.cfg.Log.Warn("a durable session was not carried over to the current runtime and image",
				"session", d.ID, "tries", tries, "most", maxTries, "error", err)
			continue
		}
		left--
		c.cfg.Stats.Carried.Add(1)
		c.cfg.Log.Info("a durable session was carried over to the current runtime and image",
			"session", d.ID, "took", time.Since(begin))
	}
	return left
}

// temporary reports whether an error may be gone at the next try: the node is full, or the session is
// used.
func temporary(err error) bool {
	return fault.Is(err, fault.Exhausted) || fault.Is(err, fault.Unavailable) ||
		fault.Is(err, fault.Restarting)
}

// edition returns the edition of a session.
func (c *Carrier) edition(v protocol.Session) string {
	if v.State == "hibernated" {
		if of, err := c.cfg.Backend.Edition(filepath.Join(c.cfg.Folder(v.ID), "snapshot")); err == nil {
			return of
		}
	}
	return v.Edition
}

// carry carries a session over. After an error the session is hibernated with its edition, as it was.
func (c *Carrier) carry(ctx context.Context, s migrate.Movable, d migrate.Description) error {
	_, end, open := c.cfg.Sessions.BeginWork(d.ID)
	if !open {
		return fault.New(fault.Restarting, op, "the node is stopping")
	}
	defer end()
	rest, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	if _, err := s.Freeze(rest); err != nil {
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, Message: "the session is not at rest", Err: err,
		}
	}
	work, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(c.cfg.Context, cancel)()
	err := c.renew(work, d.ID)
	// The session comes back also if ctx has ended.
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), reopenLimit)
	defer cancel()
	return errors.Join(err, c.cfg.Sessions.Reopen(back, s, d.Copy))
}
