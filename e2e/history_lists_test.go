package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// ledger has what the users of a cluster know about their sessions, and the lists that they were
// given. The zero value is ready to use.
type ledger struct {
	mu    sync.Mutex // guards all below
	lives map[string]life
	lists []listing
}

// life has the knowledge of the users about a session. The times are those of requests and of answers.
type life struct {
	made time.Time // the creation was acknowledged
	// ending and ended are when the end was asked for, and acknowledged; zero before.
	ending, ended time.Time
	// loss is the reason for which the server may lose the session, and lost is when its user was
	// given this reason; zero before.
	loss string
	lost time.Time
}

// listing is a list of sessions, with the states.
type listing struct {
	began, ended time.Time
	states       map[string]string
	twice        []string
	missing      []string // the nodes of which the list says that their sessions may be missing
	err          error
}

// change changes what is known of a session.
func (l *ledger) change(id string, change func(*life)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lives == nil {
		l.lives = map[string]life{}
	}
	one := l.lives[id]
	change(&one)
	l.lives[id] = one
}

func (l *ledger) made(id string)   { l.change(id, func(o *life) { o.made = time.Now() }) }
func (l *ledger) ending(id string) { l.change(id, func(o *life) { o.ending = time.Now() }) }
func (l *ledger) ended(id string)  { l.change(id, func(o *life) { o.ended = time.Now() }) }

// doom records that the server may lose a session, for a reason.
func (l *ledger) doom(id, reason string) { l.change(id, func(o *life) { o.loss = reason }) }

// lost records that the user of a session was given the reason for its loss.
func (l *ledger) lost(id, reason string) {
	l.change(id, func(o *life) { o.loss, o.lost = reason, time.Now() })
}

// loss returns the reason for which the server may lose a session; empty if it may not.
func (l *ledger) loss(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lives[id].loss
}

// list lists all sessions, and records the answer.
func (l *ledger) list(ctx context.Context, cl *wire.Client) error {
	one := listing{began: time.Now(), states: map[string]string{}}
	all, err := cl.SelectSessions(ctx, protocol.SessionQuery{})
	if ctx.Err() != nil {
		return err
	}
	one.ended, one.err, one.missing = time.Now(), err, all.Missing
	for _, s := range all.Sessions {
		if _, there := one.states[s.ID]; there {
			one.twice = append(one.twice, s.ID)
		}
		one.states[s.ID] = s.State
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists = append(l.lists, one)
	return err
}

// clear forgets the lists, which were checked, and returns how many there were, and how
// many of them were unavailable.
func (l *ledger) clear() (all, unavailable int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.lists {
		if one.err != nil {
			unavailable++
		}
	}
	all, l.lists = len(l.lists), nil
	return all, unavailable
}

// listed lists all sessions without pause until it is stopped, through another gateway each time.
// The last list has to succeed.
func (c *crowd) listed(s *Server) (stop func()) {
	c.t.Helper()
	cl, err := wire.New(s.URL, s.Token, wire.Options{
		HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	check(c.t, err)
	ctx, cancel := context.WithCancel(c.ctx)
	var work sync.WaitGroup
	c.t.Cleanup(func() { c.end(); work.Wait() })
	work.Go(func() {
		for ; ctx.Err() == nil; sleep(ctx, pause) {
			_ = c.h.ledger.list(c.ctx, cl)
		}
	})
	return func() {
		c.t.Helper()
		cancel()
		work.Wait()
		check(c.t, insist(c.ctx, func() error { return c.h.ledger.list(c.ctx, cl) }))
	}
}

// check returns what is wrong with the lists, and how much it has read:
//
//   - a list has each session that was made before it began and whose end was not asked for before
//     it ended, once, or it names the session's node as missing;
//   - it has no session whose end was acknowledged before it began, and none that nobody has made;
//   - no session in it is lost without a reason, and each session whose user was given the reason
//     before it began is.
//
// An error is wrong unless a list may be unavailable at this time.
func (l *ledger) check(mayFail func(listing) bool, owners func(id string, at time.Time) []string) (
	wrong []string, read string,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	failed := 0
	for _, one := range l.lists {
		at := one.began.Format("15:04:05.000")
		if one.err != nil {
			if failed++; !mayFail(one) {
				say("the list at %s failed: %v", at, one.err)
			}
			continue
		}
		for _, id := range one.twice {
			say("the list at %s has %s twice", at, id)
		}
		for _, id := range slices.Sorted(maps.Keys(l.lives)) {
			is := l.lives[id]
			state, there := one.states[id]
			switch {
			case is.made.IsZero():
			case !there && is.made.Before(one.began) &&
				(is.ending.IsZero() || is.ending.After(one.ended)):
				if slices.ContainsFunc(owners(id, one.ended), func(node string) bool {
					return slices.Contains(one.missing, node)
				}) {
					continue
				}
				say("the list at %s (%s) lacks %s, which was made at %s", at,
					one.ended.Sub(one.began).Round(time.Millisecond), id,
					is.made.Format("15:04:05.000"))
			case there && !is.ended.IsZero() && is.ended.Before(one.began):
				say("the list at %s has %s, which ended at %s", at, id, is.ended)
			case state == "lost" && is.loss == "":
				say("the list at %s has %s as lost", at, id)
			case there && state != "lost" && !is.lost.IsZero() && is.lost.Before(one.began):
				say("the list at %s has %s as %s, which was lost at %s", at, id, state, is.lost)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(one.states)) {
			// The answer to a creation is lost with the session.
			if l.lives[id].made.IsZero() && one.states[id] != "lost" {
				say("the list at %s has %s, which nobody has made", at, id)
			}
		}
	}
	return wrong, fmt.Sprintf("%d sessions, %d lists, %d of them unavailable", len(l.lives),
		len(l.lists), failed)
}

// never is for lists of which none may be unavailable.
func never(listing) bool { return false }

// TestLedgerCheck checks that a list with an error does not pass.
func TestLedgerCheck(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }
	list := func(s int, ids ...string) listing {
		one := listing{began: at(s), ended: at(s + 2), states: map[string]string{}}
		for _, id := range ids {
			if _, there := one.states[id]; there {
				one.twice = append(one.twice, id)
			}
			one.states[id] = "running"
		}
		return one
	}
	named := list(10)
	named.missing = []string{"n0"}
	lost := list(10, "a")
	lost.states["a"] = "lost"
	for name, x := range map[string]struct {
		lives map[string]life
		list  listing
		want  int
	}{
		"complete": {map[string]life{"a": {made: at(1)}, "b": {made: at(2)}}, list(10, "a", "b"), 0},
		"one is missing": {
			map[string]life{"a": {made: at(1)}, "b": {made: at(2)}}, list(10, "a"), 1,
		},
		"one of a node that is named is missing": {map[string]life{"a": {made: at(1)}}, named, 0},
		"one was made meanwhile":                 {map[string]life{"a": {made: at(11)}}, list(10), 0},
		"one was deleted meanwhile": {
			map[string]life{"a": {made: at(1), ending: at(11), ended: at(13)}}, list(10), 0,
		},
		"one was deleted later": {
			map[string]life{"a": {made: at(1), ending: at(13), ended: at(14)}}, list(10), 1,
		},
		"one was deleted before": {
			map[string]life{"a": {made: at(1), ending: at(2), ended: at(3)}}, list(10, "a"), 1,
		},
		"one twice":               {map[string]life{"a": {made: at(1)}}, list(10, "a", "a"), 1},
		"one is lost":             {map[string]life{"a": {made: at(1)}}, lost, 1},
		"one is lost by a reason": {map[string]life{"a": {made: at(1), loss: "killed"}}, lost, 0},
		"one is lost, and is not": {
			map[string]life{"a": {made: at(1), loss: "killed", lost: at(9)}}, list(10, "a"), 1,
		},
		"one was lost meanwhile": {
			map[string]life{"a": {made: at(1), loss: "killed", lost: at(11)}}, list(10, "a"), 0,
		},
		"nobody has made one": {nil, list(10, "a"), 1},
		"an error":            {nil, listing{err: fmt.Errorf("unavailable")}, 1},
	} {
		l := &ledger{lives: x.lives, lists: []listing{x.list}}
		owners := func(string, time.Time) []string { return []string{"n0"} }
		if wrong, _ := l.check(never, owners); len(wrong) != x.want {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
