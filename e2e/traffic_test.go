//go:build chaos

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// traffic is a crowd with all kinds of users. Beside those of a crowd, some follow long streams, some
// hibernate their sessions, some create and delete sessions, and one lists all sessions without
// pause. Some sessions are hibernated and not used.
type traffic struct {
	*crowd
	a      *separateCluster
	cl     *wire.Client
	asleep map[string]int // the sessions that are not used, with the values of a variable
	kills  bool           // nodes are killed

	mu    sync.Mutex // guards all below
	made  int        // the sessions that were created and deleted again
	slept int        // how often a session was hibernated
	waits int        // the creations that were refused at first
	polls []poll
}

// poll is the list of nodes that an operator was given.
type poll struct {
	began, ended time.Time
	list         nodes.NodeList
	err          error
}

// listPause is the time between two lists, and creatorPause that between two sessions of a creator.
const (
	listPause    = 50 * time.Millisecond
	creatorPause = 300 * time.Millisecond
)

// bareTraffic creates n users of a crowd. The others have no session before they start.
func bareTraffic(t *testing.T, a *separateCluster, h *history, n int) *traffic {
	t.Helper()
	s := a.server(a.front.address())
	cl, err := wire.New(s.URL, s.Token, wire.Options{})
	check(t, err)
	return &traffic{crowd: newCrowd(t, s, h, n), a: a, cl: cl, asleep: map[string]int{}}
}

// newTraffic creates the users of a cluster.
func newTraffic(t *testing.T, a *separateCluster, h *history) *traffic {
	t.Helper()
	u := bareTraffic(t, a, h, 2)
	s := a.server(a.front.address())
	yes := true
	for _, w := range []*worker{
		{create: protocol.SessionCreate{Durable: &yes}},
		u.streams(), u.streams(), u.sleeps(),
		u.sleeps(),
	} {
		u.add(s, w)
	}
	for i := range 4 {
		u.hibernated(t, s, i)
	}
	return u
}

// hibernated creates a session that is hibernated.
func (u *traffic) hibernated(t *testing.T, s *Server, i int) {
	t.Helper()
	one := openAs(t, s, protocol.SessionCreate{Language: "python", Name: fmt.Sprint("asleep-", i)})
	u.h.ledger.made(one.id)
	one.run("ok", fmt.Sprintf("x = %d", i))
	check(t, one.conn.Close())
	_, err := u.cl.HibernateSession(u.ctx, one.id)
	check(t, err)
	u.asleep[one.id] = i
}

// streams returns a user whose cells print for some seconds.
func (u *traffic) streams() *worker {
	w := &worker{}
	w.act = func(ctx context.Context, n int) error {
		var want strings.Builder
		for i := range 150 {
			fmt.Fprintf(&want, "%s-%d-%d\n", w.name, n, i)
		}
		return w.counted(ctx, n, want.String(), fmt.Sprintf(
			"import time\nfor i in range(150):\n"+
				" print(f'%s-%d-{i}', flush=True)\n time.sleep(0.02)", w.name, n))
	}
	return w
}

// sleeps returns a user who hibernates the session after each cell.
func (u *traffic) sleeps() *worker {
	w := &worker{}
	w.act = func(ctx context.Context, n int) error {
		want := fmt.Sprintf("%s-%d\n", w.name, n)
		if err := w.counted(ctx, n, want, fmt.Sprintf("print('%s-%d')", w.name, n)); err != nil {
			return err
		}
		err := insist(ctx, func() error {
			_, err := w.cl.HibernateSession(ctx, w.id)
			return err
		})
		if err != nil && !fault.Is(err, fault.Conflict) { // the session may be moving
			return fmt.Errorf("hibernating after cell %d: %w", n, err)
		}
		u.mu.Lock()
		u.slept++
		u.mu.Unlock()
		sleep(u.ctx, creatorPause)
		return nil
	}
	return w
}

// start starts the work of all users, until the traffic is stopped.
func (u *traffic) start() (stop func()) {
	ctx, cancel := context.WithCancel(u.ctx)
	var work sync.WaitGroup
	u.t.Cleanup(func() { cancel(); work.Wait() })
	for i := range 2 {
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := u.create(u.ctx, fmt.Sprintf("made-%d-%d", i, n)); err != nil {
					u.t.Errorf("session %d of creator %d: %v", n, i, err)
					return
				}
				sleep(ctx, creatorPause)
			}
		})
	}
	work.Go(func() {
		for ; ctx.Err() == nil; sleep(ctx, listPause) {
			u.h.ledger.list(u.ctx, u.cl)
		}
	})
	work.Go(func() {
		for ; ctx.Err() == nil; sleep(ctx, 4*listPause) {
			p := poll{began: time.Now()}
			p.list, p.err = u.cl.Nodes(u.ctx)
			p.ended = time.Now()
			u.mu.Lock()
			u.polls = append(u.polls, p)
			u.mu.Unlock()
		}
	})
	end := u.crowd.start()
	return func() {
		u.t.Helper()
		cancel()
		work.Wait()
		end()
	}
}

// create creates a session, uses it, and deletes it. If nodes are killed, the session may be lost with
// its node, which has to give this reason.
func (u *traffic) create(ctx context.Context, name string) error {
	id, tries, err := u.use(ctx, name)
	if u.kills && fault.Is(err, fault.SandboxLost) {
		err := killed(ctx, u.cl, id)
		if err == nil {
			u.h.ledger.lost(id, "killed")
		}
		return err
	}
	if err != nil {
		return err
	}
	u.h.ledger.ended(id)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.made++
	if tries > 1 {
		u.waits++
	}
	return nil
}

// use creates a session, writes and reads a file of it, and deletes it. tries is how often it asked
// for the session.
func (u *traffic) use(ctx context.Context, name string) (id string, tries int, err error) {
	var s protocol.Ensured
	if err := insist(ctx, func() (err error) {
		tries++
		s, err = u.cl.EnsureSession(ctx,
			protocol.SessionCreate{Language: "python", Name: name})
		return err
	}); err != nil {
		return "", tries, fmt.Errorf("creating: %w", err)
	}
	u.h.ledger.made(s.ID)
	body := []byte(name)
	if err := insist(ctx, func() error {
		_, err := u.cl.Upload(ctx, s.ID, "file", 0, bytes.NewReader(body))
		return err
	}); err != nil {
		return s.ID, tries, fmt.Errorf("writing: %w", err)
	}
	var got []byte
	if err := insist(ctx, func() error {
		r, err := u.cl.Download(ctx, s.ID, "file")
		if err != nil {
			return err
		}
		defer r.Close()
		got, err = io.ReadAll(r)
		return err
	}); err != nil {
		return s.ID, tries, fmt.Errorf("reading: %w", err)
	}
	if !bytes.Equal(got, body) {
		return s.ID, tries, fmt.Errorf("the file has %q", got)
	}
	u.h.ledger.ending(s.ID)
	if err := insist(ctx, func() error {
		err := u.cl.DeleteSession(ctx, s.ID)
		if fault.Is(err, fault.NotFound) { // the answer to an earlier request was lost
			err = nil
		}
		return err
	}); err != nil {
		return s.ID, tries, fmt.Errorf("deleting: %w", err)
	}
	return s.ID, tries, nil
}

// slowest returns the longest time without an answer since the last call, of all users but those
// whose cells take long.
func (u *traffic) slowest() (longest time.Duration) {
	for _, w := range u.users {
		w.mu.Lock()
		if w.act == nil {
			longest = max(longest, w.slowest)
		}
		w.slowest = 0
		w.mu.Unlock()
	}
	return longest
}

// proveAsleep checks the variables of the sessions that were not used.
func (u *traffic) proveAsleep(t *testing.T) {
	t.Helper()
	for id, i := range u.asleep {
		s := (&session{t: t, ctx: u.ctx, client: u.cl, id: id}).on(u.a.server(u.a.front.address()))
		if got := s.run("ok", "x").result(t); got != fmt.Sprint(i) {
			t.Errorf("a hibernated session has %s, want %d", got, i)
		}
	}
}

// report logs the figures.
func (u *traffic) report(t *testing.T) {
	t.Helper()
	cells, lines := 0, 0
	for _, w := range u.users {
		cells, lines = cells+w.cells, lines+w.keys
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t.Logf("%d users, %d cells, %d lines; %d sessions created and deleted, %d of them refused at "+
		"first; %d hibernated; %d lists of nodes", len(u.users), cells, lines, u.made, u.waits,
		u.slept, len(u.polls))
}
