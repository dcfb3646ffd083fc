// Package carry moves sessions and snapshots of an earlier edition, whose time is over, to the current
// one. Memory cannot be moved, so the files are: from the earlier sandbox to a new one. Package edition
// determines which editions end.
package carry

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
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
	// Parked has the sessions in the blob store, and Snapshots those of users.
	Parked    Parked
	Snapshots Snapshots
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
	// renew makes a frozen session one of the current edition, and renewSnapshot a snapshot. Tests
	// replace them.
	renew         func(ctx context.Context, id string) error
	renewSnapshot func(ctx context.Context, dir, work string) error
	// tries counts the failures of sessions and snapshots.
	tries map[string]int
	// plain has the folders of those that have failed since their variables were kept. At the next try
	// they are not.
	plain map[string]bool
}

// New returns a Carrier.
func New(cfg Config) *Carrier {
	c := &Carrier{cfg: cfg, tries: map[string]int{}, plain: map[string]bool{}}
	c.renew, c.renewSnapshot = c.renewFolder, c.renewCopy
	return c
}

// Stats returns the counters of the node.
func (c *Carrier) Stats() *stats.Stats { return c.cfg.Stats }

// Carry moves sessions and snapshots whose edition ends to the current one, one after another, until
// ctx ends: first the sessions of this node, the durable ones before the others, then the sessions in
// the blob store, then snapshots. Unless it is urgent, it leaves sessions that run. It returns how many
// have to be carried over still. Those that have failed maxTries times are not counted.
func (c *Carrier) Carry(ctx context.Context, ends func(edition string) bool,
	urgent bool,
) (left int) {
	w := work{Carrier: c, ends: ends, urgent: urgent, before: c.tries}
	c.tries = map[string]int{}
	w.sessions(ctx)
	w.parked(ctx)
	w.snapshots(ctx)
	if w.left == 0 {
		clear(c.plain)
	}
	return w.left
}

// work is one call of Carry.
type work struct {
	*Carrier
	ends   func(edition string) bool
	urgent bool
	// before are the failures of earlier calls.
	before map[string]int
	left   int
}

// sessions carries over the sessions of this node.
func (w *work) sessions(ctx context.Context) {
	all, open := w.cfg.Sessions.All()
	slices.SortStableFunc(all, func(a, b migrate.Movable) int {
		return first(a.Describe().Durable, b.Describe().Durable)
	})
	for _, s := range all {
		d, v := s.Describe(), s.View()
		if s.Life().Err() != nil || !w.ends(w.edition(v)) {
			continue
		}
		ready := open && !d.Moving && (v.State != "running" || w.urgent)
		w.one(ctx, d.ID, ready, func() error { return w.carry(ctx, s, d) })
	}
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// one carries a session or a snapshot over, unless it has failed too often. It counts what is left.
func (w *work) one(ctx context.Context, id string, ready bool, do func() error) {
	tries := w.before[id]
	if tries > 0 {
		w.tries[id] = tries
	}
	if tries >= maxTries {
		return
	}
	w.left++
	if !ready || ctx.Err() != nil {
		return
	}
	begin := time.Now()
	err := do()
	switch {
	case errors.Is(err, errElsewhere):
		w.left--
	case err != nil:
		if !temporary(err) {
			tries++
			w.tries[id] = tries
		}
		w.cfg.Stats.CarryFailed.Add(1)
		w.cfg.Log.Warn("not carried over to the current runtime and image", "id", id, "tries",
			tries, "most", maxTries, "error", err)
	default:
		w.left--
		w.cfg.Stats.Carried.Add(1)
		w.cfg.Log.Info("carried over to the current runtime and image", "id", id, "took",
			time.Since(begin))
	}
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
