package carry

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Parked has the sessions in the blob store. migrate.Again implements it.
type Parked interface {
	// Ending returns the sessions in the blob store whose edition ends. With all, it includes those
	// of failed nodes, of which the store has a copy.
	Ending(ctx context.Context, ends func(edition string) bool, all bool) ([]string, error)
	// Fetch moves a session to this node. Errors: NotFound if the store does not have it any more,
	// Conflict if another node has it.
	Fetch(ctx context.Context, id string) (migrate.Movable, error)
	// Park moves it to the blob store again.
	Park(ctx context.Context, id string) error
	// Elsewhere reports whether a node has an edition for longer than this one.
	Elsewhere(ctx context.Context, edition string) bool
}

// Snapshots has the snapshots of users. snapshot.Store implements it.
type Snapshots interface {
	// Ending returns the snapshots whose edition ends. With all, it includes those that other nodes
	// have taken.
	Ending(ctx context.Context, ends func(edition string) bool, all bool) (
		[]*snapshot.Manifest, error)
	// Carry replaces the folder dir of a snapshot by the folder work, which renew writes.
	Carry(ctx context.Context, c *snapshot.Manifest,
		renew func(ctx context.Context, dir, work string) error) error
}

// errElsewhere is the error of a session that another node has, or that has ended.
var errElsewhere = errors.New("it is not in the blob store any more")

// leaves returns which editions end for sessions and snapshots that other nodes can use. They are left
// to a node that has the edition for longer.
func (w *work) leaves(ctx context.Context) func(edition string) bool {
	known := map[string]bool{}
	return func(edition string) bool {
		is, asked := known[edition]
		if !asked {
			is = w.ends(edition) && !w.cfg.Parked.Elsewhere(ctx, edition)
			known[edition] = is
		}
		return is
	}
}

// Needed returns the editions that sessions and snapshots in the blob store need.
func (c *Carrier) Needed(ctx context.Context) (map[string]bool, error) {
	needed := map[string]bool{}
	note := func(edition string) bool {
		needed[edition] = true
		return false
	}
	_, err := c.cfg.Parked.Ending(ctx, note, true)
	_, serr := c.cfg.Snapshots.Ending(ctx, note, true)
	return needed, errors.Join(err, serr)
}

// parked carries over the sessions in the blob store. All nodes do so in a random order: one of them
// gets each session.
func (w *work) parked(ctx context.Context) {
	all, err := w.cfg.Parked.Ending(ctx, w.leaves(ctx), w.urgent)
	if err != nil {
		w.left++
		w.cfg.Log.Warn("the sessions in the blob store are not known, which should be carried over",
			"error", err)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, id := range all {
		w.one(ctx, id, true, func() error { return w.carryParked(ctx, id) })
	}
}

// carryParked brings a parked session to this node, carries it over, and parks it again. If it cannot
// be parked, it stays here.
func (c *Carrier) carryParked(ctx context.Context, id string) error {
	s, err := c.cfg.Parked.Fetch(ctx, id)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) {
		return errElsewhere
	}
	if err != nil {
		return err
	}
	d := s.Describe()
	if d.Works {
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, Message: "code runs in it, and continues on this node",
		}
	}
	if err := c.carry(ctx, s, d); err != nil {
		return err
	}
	if err := c.cfg.Parked.Park(ctx, id); err != nil {
		c.cfg.Log.Info("a session that was carried over stays on this node", "session", id, "error",
			err)
	}
	return nil
}

// snapshots carries over the snapshots of users: those that this node has taken, and in the end those
// of nodes that are gone.
func (w *work) snapshots(ctx context.Context) {
	all, err := w.cfg.Snapshots.Ending(ctx, w.leaves(ctx), w.urgent)
	if err != nil {
		w.left++
		w.cfg.Log.Warn("the snapshots in the blob store are not known, which should be carried over",
			"error", err)
	}
	for _, c := range all {
		w.one(ctx, c.ID, true, func() error {
			work, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			defer context.AfterFunc(w.cfg.Context, cancel)()
			return w.cfg.Snapshots.Carry(work, c, w.renewSnapshot)
		})
	}
}
