package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// crowd is a group of users who work without pause while failures happen.
type crowd struct {
	t     *testing.T
	ctx   context.Context
	end   context.CancelFunc
	h     *history
	users []*worker
	// keepers are the users of durable sessions.
	keepers []*keeper
}

// worker has a session with a kernel, a shell and a file. Each action leaves a trace, and
// each acknowledged action must be found once.
type worker struct {
	name string
	s    *Server
	id   string // empty before it is created
	cl   *wire.Client
	conn *wire.Conn
	kern *wire.Kernel
	term *wire.Terminal
	h    *history
	// create describes the session; its zero value stands for one with Python.
	create protocol.SessionCreate
	// act does the work of a round in place of round; nil for the work of most users.
	act func(ctx context.Context, n int) error

	mu    sync.Mutex // guards all below
	cells int        // the cells that have succeeded
	keys  int        // the lines that were typed
	file  int        // the number of the file that was last acknowledged
	want  strings.Builder
	lost  error // why the session has ended, if it may
	// slowest is the longest time without an answer.
	slowest time.Duration
}

// again reports whether the request that failed with err should be repeated.
func again(err error) bool {
	for _, k := range []fault.Kind{
		fault.Unavailable, fault.Exhausted, fault.Restarting, fault.Slow,
		fault.DeadlineExceeded,
	} {
		if fault.Is(err, k) {
			return true
		}
	}
	return false
}

// pause is the time before a rejected request is repeated.
const pause = 100 * time.Millisecond

// insist repeats an action until it succeeds or fails permanently.
func insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !again(err) || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// sleep waits for a time, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// killed returns an error unless a session is reported as lost because its node was killed, with the
// first answer of the node.
func killed(ctx context.Context, cl *wire.Client, id string) error {
	var v protocol.Session
	err := insist(ctx, func() (err error) {
		v, err = cl.Session(ctx, id)
		return err
	})
	if err == nil && (v.State != "lost" || v.Reason != "killed") {
		err = fmt.Errorf("after the kill of its node, %s is %s for the reason %q", id, v.State, v.Reason)
	}
	return err
}

// newCrowd creates n users who work through the server.
func newCrowd(t *testing.T, s *Server, h *history, n int) *crowd {
	t.Helper()
	c := &crowd{t: t, h: h}
	c.ctx, c.end = context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(c.end)
	for range n {
		c.join(s)
	}
	return c
}

// join adds a user.
func (c *crowd) join(s *Server) { c.add(s, &worker{}) }

// add adds a user who may do something else than others.
func (c *crowd) add(s *Server, w *worker) {
	c.t.Helper()
	w.name, w.s, w.h = fmt.Sprint("u", len(c.users)), s, c.h
	w.create.Language = "python"
	check(c.t, w.begin(c.ctx))
	c.t.Cleanup(func() { w.conn.Close() })
	c.users = append(c.users, w)
}

// crowd creates a crowd of n users or a few more. Each node has the session of at least one.
func (a *separateCluster) crowd(t *testing.T, h *history, n int) *crowd {
	t.Helper()
	s := a.server(a.front.address())
	c := newCrowd(t, s, h, n)
	unused := func(n *part) bool { return len(a.usersOf(c, n)) == 0 }
	cl := a.through(t, a.gateways[0])
	// Gateways avoid a node for some time that they could not reach.
	eventually(t, "a session on each node", func() bool {
		if !slices.ContainsFunc(a.nodes, unused) {
			return true
		}
		var made protocol.Session
		check(t, insist(c.ctx, func() (err error) {
			made, err = cl.CreateSession(c.ctx, protocol.SessionCreate{Language: "python"})
			return err
		}))
		h.ledger.made(made.ID)
		if on := a.owner(made.ID); on == nil || !unused(on) {
			check(t, h.delete(c.ctx, cl, made.ID))
			return false
		}
		c.add(s, &worker{id: made.ID})
		return false
	})
	return c
}

// start starts the work of all users, until the crowd is stopped.
func (c *crowd) start() (stop func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	watching, unwatch := context.WithCancel(c.ctx)
	var work, views sync.WaitGroup
	c.t.Cleanup(func() { c.end(); work.Wait(); views.Wait() })
	for _, w := range c.users {
		work.Go(func() {
			if err := w.run(ctx); err != nil {
				c.t.Errorf("%s in %s: %v", w.name, w.id, err)
			}
		})
		views.Go(func() {
			if err := w.watch(watching); err != nil {
				c.t.Errorf("%s watching %s: %v", w.name, w.id, err)
			}
		})
	}
	for _, k := range c.keepers {
		work.Go(func() {
			if err := k.run(ctx); err != nil {
				c.t.Errorf("%s in %s: %v", k.name, k.id, err)
			}
		})
	}
	return func() {
		c.t.Helper()
		cancel()
		work.Wait()
		for _, w := range c.users {
			if w.lost == nil {
				check(c.t, w.prove(c.ctx))
			}
		}
		unwatch()
		views.Wait()
	}
}

// rounds waits until every user has done n more cells.
func (c *crowd) rounds(n int) {
	c.t.Helper()
	for _, w := range c.users {
		goal := w.done() + n
		eventually(c.t, fmt.Sprintf("cell %d of %s in %s", goal, w.name, w.id), func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.cells >= goal || w.lost != nil || c.t.Failed()
		})
	}
	c.kept(n)
}

// kept waits until every user of a durable session has done n more cells.
func (c *crowd) kept(n int) {
	c.t.Helper()
	for _, k := range c.keepers {
		goal := k.done() + n
		eventually(c.t, fmt.Sprintf("cell %d of %s in %s", goal, k.name, k.id), func() bool {
			return k.done() >= goal || c.t.Failed()
		})
	}
}

func (w *worker) done() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cells
}

func (w *worker) begin(ctx context.Context) error {
	var err error
	w.cl, err = wire.New(w.s.URL, w.s.Token, wire.Options{
		MinBackoff: 20 * time.Millisecond,
		MaxBackoff: 300 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	if w.id == "" {
		var made protocol.Session
		if err := insist(ctx, func() (err error) {
			made, err = w.cl.CreateSession(ctx, w.create)
			return err
		}); err != nil {
			return err
		}
		w.id = made.ID
		w.h.ledger.made(w.id)
	}
	if w.conn, err = w.cl.Connect(ctx); err != nil {
		return err
	}
	if err := insist(ctx, func() (err error) {
		w.kern, err = w.conn.Kernel(ctx, w.id,
			"k1")
		return err
	}); err != nil {
		return err
	}
	w.file = -1
	if _, err := w.cell(ctx, "begin", "ran = []"); err != nil {
		return err
	}
	w.term, err = w.conn.StartTerminal(ctx,
		protocol.ChannelOpen{Session: w.id, Argv: []string{"bash", "--norc"}, Cols: 80, Rows: 24})
	return err
}

// cell runs code under a key until it is acknowledged, and returns what it
// printed.
func (w *worker) cell(ctx context.Context, key, code string) (string, error) {
	var out string
	err := insist(ctx, func() error {
		out = ""
		began := time.Now()
		cell, err := w.kern.Execute(ctx, code, wire.ExecuteOptions{Key: key})
		if err != nil {
			return err
		}
		for {
			r, err := cell.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			switch r.Kind {
			case frame.KindStdout:
				out += string(r.Payload)
			case frame.KindGap:
				return fmt.Errorf("a gap: %s", r.Payload)
			}
		}
		if reply := cell.Reply(); reply.Status != "ok" {
			return fmt.Errorf("cell %s: %+v", key, *reply)
		}
		w.mu.Lock()
		w.slowest = max(w.slowest, time.Since(began))
		w.mu.Unlock()
		return nil
	})
	return out, err
}

// lostBy returns the error with which the session was lost; nil if it was not.
func (w *worker) lostBy() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// run works until ctx ends, and returns between two actions. It ends earlier if the session is lost
// and the ledger has a reason for that.
func (w *worker) run(ctx context.Context) error {
	all := context.WithoutCancel(ctx)
	for n := 0; ctx.Err() == nil; n++ {
		err := w.round(all, n)
		if fault.Is(err, fault.SandboxLost) && w.h.ledger.loss(w.id) != "" {
			w.mu.Lock()
			w.lost = err
			w.mu.Unlock()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// round executes a cell, types a line in the shell and writes a file.
func (w *worker) round(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if w.act != nil {
		return w.act(ctx, n)
	}
	want := fmt.Sprintf("%s-%d\n", w.name, n)
	if err := w.counted(ctx, n, want, fmt.Sprintf("print('%s-%d')", w.name, n)); err != nil {
		return err
	}
	if err := w.typed(ctx, n); err != nil {
		return fmt.Errorf("typing line %d: %w", n, err)
	}
	if n%4 != 0 {
		return nil
	}
	body := bytes.Repeat(fmt.Appendf(nil, "%08d", n), 1<<13)
	if err := insist(ctx, func() error {
		_, err := w.cl.Upload(ctx, w.id, "file", 0, bytes.NewReader(body))
		return err
	}); err != nil {
		return fmt.Errorf("writing file %d: %w", n, err)
	}
	w.file = n
	return nil
}

// counted executes the cell n, which has to print a text.
func (w *worker) counted(ctx context.Context, n int, want, code string) error {
	out, err := w.cell(ctx, fmt.Sprint("cell-", n), fmt.Sprintf("ran.append(%d)\n%s", n, code))
	if err != nil {
		return err
	}
	if out != want {
		return fmt.Errorf("cell %d printed %q, want %q", n, out, want)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cells++
	w.want.WriteString(want)
	return nil
}

// typed types a line, and waits for its output.
func (w *worker) typed(ctx context.Context, n int) error {
	if err := w.term.Type(ctx, fmt.Appendf(nil, "echo %d >> typed; echo 'te''rm'-%d-\r", n,
		n)); err != nil {
		return err
	}
	mark := fmt.Sprintf("term-%d-", n)
	text := ""
	for !strings.Contains(text, mark) {
		r, err := w.term.Next(ctx)
		if exit := w.term.Exit(); errors.Is(err, io.EOF) && exit != nil {
			err = cmp.Or(wire.ExitError(*exit), err) // the sandbox may have been lost
		}
		if err != nil {
			return fmt.Errorf("%w, after %q", err, text)
		}
		switch r.Kind {
		case frame.KindStdout:
			text += string(r.Payload)
			text = text[max(0, len(text)-4096):]
		case frame.KindGap:
			return fmt.Errorf("a gap: %s", r.Payload)
		}
	}
	w.keys = n + 1
	return nil
}

// delete deletes the session.
func (w *worker) delete(ctx context.Context) error { return w.h.delete(ctx, w.cl, w.id) }

// delete deletes a session, and records that.
func (h *history) delete(ctx context.Context, cl *wire.Client, id string) error {
	h.ledger.ending(id)
	err := insist(ctx, func() error { return cl.DeleteSession(ctx, id) })
	if err == nil {
		h.ledger.ended(id)
	}
	return err
}

// prove checks the session for the traces: each acknowledged action is found once and in
// order.
func (w *worker) prove(ctx context.Context) error {
	n := w.done()
	out, err := w.cell(ctx, "prove", "print(ran == list(range(len(ran))), len(ran))")
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.want.WriteString(out)
	w.mu.Unlock()
	if want := fmt.Sprintf("True %d\n", n); out != want {
		return fmt.Errorf("%s: its variables are %q, want %q", w.name, out, want)
	}
	var typed, file []byte
	for name, into := range map[string]*[]byte{"typed": &typed, "file": &file} {
		if name == "file" && w.file < 0 || name == "typed" && w.keys == 0 {
			continue
		}
		if err := insist(ctx, func() error {
			r, err := w.cl.Download(ctx, w.id, name)
			if err != nil {
				return err
			}
			defer r.Close()
			*into, err = io.ReadAll(r)
			return err
		}); err != nil {
			return fmt.Errorf("%s: %s: %w", w.name, name, err)
		}
	}
	var lines strings.Builder
	for i := range w.keys {
		fmt.Fprintln(&lines, i)
	}
	if string(typed) != lines.String() {
		return fmt.Errorf("%s: the typed text is %.400q, want %d lines", w.name, typed, w.keys)
	}
	if w.file >= 0 && !bytes.Equal(file, bytes.Repeat(fmt.Appendf(nil, "%08d", w.file), 1<<13)) {
		return fmt.Errorf("%s: file %d has %d bytes, which begin with %.20q", w.name, w.file,
			len(file), file)
	}
	return nil
}

// watch reads the kernel's whole output as another viewer, until ctx ends. It must be the
// output that the worker was sent, without a gap.
func (w *worker) watch(ctx context.Context) error {
	v, err := w.conn.Attach(ctx, w.id, "k1", wire.AttachOptions{})
	if err != nil {
		return err
	}
	defer v.Close()
	seen := view{session: w.id, channel: "k1"}
	var text strings.Builder
	defer func() { w.h.saw(seen) }()
	for {
		r, err := v.Next(ctx)
		if ctx.Err() != nil || fault.Is(err, fault.SandboxLost) && w.h.ledger.loss(w.id) != "" ||
			errors.Is(err, io.EOF) { // a kernel that has ended
			break
		}
		if err != nil {
			return err
		}
		epoch, offset := v.Offset()
		seen.places = append(seen.places, viewed{epoch, offset})
		switch r.Kind {
		case frame.KindStdout:
			text.Write(r.Payload)
		case frame.KindGap:
			return fmt.Errorf("a gap: %s", r.Payload)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// The last output may not have arrived yet.
	if !strings.HasPrefix(w.want.String(), text.String()) && !strings.HasPrefix(text.String(),
		w.want.String()) {
		return fmt.Errorf("was sent %d bytes that differ from the %d printed bytes", text.Len(),
			w.want.Len())
	}
	return nil
}
