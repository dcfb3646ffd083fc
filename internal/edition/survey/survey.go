// Package survey reports which runtimes and images a node keeps and what needs them, and removes those
// that nothing needs.
package survey

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol/nodes"
)

const (
	// surveyEvery is how often a node looks which editions are needed. With a short window it looks
	// more often, since it then has to carry sessions over soon, but not more often than each
	// surveyLeast: a restore that has begun before a survey has ended at the next one.
	surveyEvery = time.Minute
	surveyLeast = 10 * time.Second
	perWindow   = 4
	// countLife is how long the counts of a report are used again.
	countLife = 10 * time.Second
	// A count of the sessions in the blob store is used again for parkedFactor times the time that it
	// took, so that it costs little, and at least for countLife. parkedLimit bounds the count.
	parkedFactor = 30
	parkedLimit  = 10 * time.Second
)

// CarryTime is how much longer than its window an edition is kept at most, while sessions of it are
// carried over to the current edition. In the first half, sessions that run are left alone.
const CarryTime = time.Hour

// Carrier carries sessions over to the current edition. carry.Carrier implements it.
type Carrier interface {
	// Carry carries over the sessions and snapshots whose edition ends, until ctx ends. Unless it is
	// urgent, it leaves sessions that run. It returns how many have to be carried over still.
	Carry(ctx context.Context, ends func(edition string) bool, urgent bool) (left int)
	// Needed returns the editions that sessions and snapshots in the blob store need.
	Needed(ctx context.Context) (map[string]bool, error)
}

// Stored is the editions in the blob store. share.Share implements it.
type Stored interface {
	// Put puts an edition there, unless it is there.
	Put(ctx context.Context, f edition.Files, replaced time.Time) error
	// List returns the editions that are there.
	List(ctx context.Context) ([]string, error)
	// Sweep removes those that are not needed and were put there before a time.
	Sweep(ctx context.Context, needed map[string]bool, before time.Time) (int, error)
	// Whole reports whether a node that has none of its files can fetch an edition.
	Whole(ctx context.Context, id edition.ID) (bool, error)
	// Hurry makes the work on files as fast as the blob store allows, until end is called.
	Hurry() (end func())
}

// Users are the sessions and snapshots of a node, and the parked sessions. migrate.Editions implements
// it.
type Users interface {
	// EditionUse counts what on this node needs each edition.
	EditionUse() map[string]nodes.EditionUse
	// ParkedEditions counts the sessions in the blob store that need each.
	ParkedEditions(ctx context.Context) (map[string]int, error)
}

// Survey reports which editions a node keeps and what needs them.
type Survey struct {
	Store *edition.Store
	// Needed has the sessions and snapshots.
	Needed Users
	// Shared is true in a cluster with a blob store.
	Shared bool
	// Window is how long the node keeps earlier editions.
	Window  time.Duration
	Carrier Carrier
	// Stored is the editions in the blob store, nil without one, and Others those of all nodes.
	Stored Stored
	Others cluster.Editions
	Log    *slog.Logger

	sharedAt time.Time // when share ran last; one goroutine uses it
	// sharing is held while editions are put into the blob store. once makes it.
	sharing ctxlock.Lock
	once    sync.Once

	mu      sync.Mutex // guards use and counted, and is held while they are counted
	counted time.Time
	use     map[string]nodes.EditionUse

	parkedMu sync.Mutex // guards all below in the same way
	// parkedUntil is the time until which the last look into the blob store is used.
	parkedUntil time.Time
	parked      map[string]int
	stored      []string
}

// every returns how often the node looks which editions are needed.
func (e *Survey) every() time.Duration {
	return min(max(e.Window/perWindow, surveyLeast), surveyEvery)
}

// Run puts the editions into the blob store that something there needs, at once and then from time
// to time, carries sessions over, and removes editions that are not needed, until ctx ends. In a
// cluster with a blob store an edition stays until the end of its window, because sessions and
// snapshots in the store may need it. No edition is removed while editions are put into the store,
// which may take minutes: sessions do not wait for that.
func (e *Survey) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { e.shareOften(ctx) })
	tick := time.NewTicker(e.every())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		waiting := e.carry(ctx)
		if !e.turn().TryLock() {
			continue
		}
		named, _ := e.Store.Earlier()
		if !e.Shared {
			named = nil
			for id := range e.Needed.EditionUse() {
				named = append(named, id)
			}
		}
		if err := e.Store.Survey(named, waiting); err != nil {
			e.Log.Warn("earlier runtimes and images were not removed", "error", err)
		}
		e.turn().Unlock()
	}
}

// carry carries over the sessions of editions that end. It reports whether some are left.
func (e *Survey) carry(ctx context.Context) (waiting bool) {
	since := e.Store.Ending()
	if since.IsZero() {
		return false
	}
	ctx, cancel := context.WithDeadline(ctx, since.Add(CarryTime))
	defer cancel()
	return e.Carrier.Carry(ctx, e.Store.Ends, time.Since(since) > CarryTime/2) > 0
}

// Editions returns the editions that the node has or would need, the newest first.
func (e *Survey) Editions() (all []nodes.Edition) {
	use := e.counts()
	known := map[string]bool{}
	for _, one := range e.Store.List() {
		id := one.String()
		known[id] = true
		v := nodes.Edition{
			ID: id, GVisor: one.GVisor, Current: one.Current, Bytes: one.Bytes,
			BeganMS: one.Began.UnixMilli(), EditionUse: use[id],
		}
		if !one.Current {
			v.EndsMS = one.End.UnixMilli()
		}
		all = append(all, v)
	}
	var others []nodes.Edition
	for id, n := range use {
		if !known[id] {
			others = append(others, e.other(id, n))
		}
	}
	slices.SortFunc(others, func(a, b nodes.Edition) int { return strings.Compare(a.ID, b.ID) })
	return append(all, others...)
}

// other describes an edition whose image is not in the store: that of a template, or one that the
// node lacks.
func (e *Survey) other(text string, use nodes.EditionUse) nodes.Edition {
	v := nodes.Edition{ID: text, EditionUse: use, Missing: true}
	id, _ := edition.Parse(text)
	for _, one := range e.Store.List() {
		if one.Runtime == id.Runtime && !e.Store.Knows(id.Image) {
			v.GVisor, v.Missing = one.GVisor, false
			if !one.Current {
				v.EndsMS = one.End.UnixMilli()
			}
			break
		}
	}
	return v
}

func (e *Survey) counts() map[string]nodes.EditionUse {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.use == nil || time.Since(e.counted) > countLife {
		e.use, e.counted = e.Needed.EditionUse(), time.Now()
	}
	return e.use
}

// wholes returns the editions in the blob store that any node can fetch.
func (e *Survey) wholes(ctx context.Context) (all []string, err error) {
	known, err := e.Stored.List(ctx)
	for _, text := range known {
		id, _ := edition.Parse(text)
		whole, werr := e.Stored.Whole(ctx, id)
		if whole {
			all = append(all, text)
		}
		err = errors.Join(err, werr)
	}
	return all, err
}

// InStore counts the sessions in the blob store, and lists the editions there that any node can fetch;
// nil without a blob store.
func (e *Survey) InStore() (parked map[string]int, stored []string) {
	e.parkedMu.Lock()
	defer e.parkedMu.Unlock()
	begin := time.Now()
	if e.parked != nil && begin.Before(e.parkedUntil) {
		return e.parked, e.stored
	}
	ctx, cancel := context.WithTimeout(context.Background(), parkedLimit)
	defer cancel()
	parked, err := e.Needed.ParkedEditions(ctx)
	if err == nil && e.Stored != nil {
		stored, err = e.wholes(ctx)
	}
	if err != nil {
		e.Log.Warn("the sessions in the blob store were not counted", "error", err)
		return e.parked, e.stored
	}
	now := time.Now()
	e.parked, e.stored = parked, stored
	e.parkedUntil = now.Add(max(parkedFactor*now.Sub(begin), countLife))
	return parked, stored
}
