package e2e

import (
	"context"
	"encoding/json"
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
	"github.com/sandgate/sandgate/protocol/message"
)

// keeper is the user of a durable session. Each of its cells adds a line to a file there. A cell
// may be lost, if its reply reports that.
type keeper struct {
	name string
	s    *Server
	cl   *wire.Client
	conn *wire.Conn
	kern *wire.Kernel
	id   string
	h    *history

	mu   sync.Mutex // guards all below
	acks []ack      // the ends of the cells
}

// ack is the end of a cell: ok, or the name of the loss.
type ack struct {
	end string
	at  time.Time
}

// begin creates a durable session, and waits for its first copy: before that a session may be lost
// with its node.
func (k *keeper) begin(t *testing.T, c *crowd, s *Server) {
	t.Helper()
	yes := true
	var err error
	k.s, k.h = s, c.h
	k.cl, err = wire.New(s.URL, s.Token, wire.Options{
		MinBackoff: 20 * time.Millisecond,
		MaxBackoff: 300 * time.Millisecond,
	})
	check(t, err)
	made, err := k.cl.CreateSession(c.ctx, protocol.SessionCreate{
		Language: "python", Name: k.name, Durable: &yes,
	})
	check(t, err)
	k.id = made.ID
	k.h.ledger.made(k.id)
	k.conn, err = k.cl.Connect(c.ctx)
	check(t, err)
	t.Cleanup(func() { k.conn.Close() })
	k.kern, err = k.conn.Kernel(c.ctx, k.id, "k1")
	check(t, err)
	check(t, k.cell(c.ctx, 0))
	eventually(t, "the first copy of "+k.name, func() bool {
		v, err := k.cl.Session(c.ctx, k.id)
		return err == nil && v.KeptMS > 0
	})
}

// keep adds n users with durable sessions to the crowd.
func (c *crowd) keep(t *testing.T, s *Server, n int) {
	t.Helper()
	for range n {
		one := &keeper{name: fmt.Sprint("keeper-", len(c.keepers))}
		one.begin(t, c, s)
		c.keepers = append(c.keepers, one)
	}
}

// prove checks all durable sessions. Their logs have an event, unless it is empty.
func (c *crowd) prove(t *testing.T, when, event string) (cells, lost int) {
	t.Helper()
	for _, one := range c.keepers {
		n, err := one.prove(c.ctx, event)
		if err != nil {
			t.Errorf("%s, %s in %s: %v", when, one.name, one.id, err)
		}
		cells, lost = cells+one.done(), lost+n
	}
	t.Logf("%s: of %d cells of durable sessions %d are reported as lost", when, cells, lost)
	return cells, lost
}

func (k *keeper) done() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.acks)
}

// cell executes a cell until it has an end with a name.
func (k *keeper) cell(ctx context.Context, n int) error {
	var end string
	err := insist(ctx, func() error {
		cell, err := k.kern.Execute(ctx, line(n), wire.ExecuteOptions{Key: keyOf(n)})
		if err != nil {
			return err
		}
		reply, err := cell.Wait(ctx)
		switch {
		case fault.Is(err, fault.SandboxLost) && k.lives(ctx):
			end = string(fault.SandboxLost)
		case err != nil:
			return err
		case reply.Status == "ok":
			end = "ok"
		case reply.EName == "SandboxLost" || reply.EName == "KernelDied":
			end = reply.EName
		default:
			return fmt.Errorf("cell %d: %+v", n, reply)
		}
		return nil
	})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acks = append(k.acks, ack{end, time.Now()})
	return nil
}

func (k *keeper) delete(ctx context.Context) error { return k.h.delete(ctx, k.cl, k.id) }

// lives reports whether the session exists.
func (k *keeper) lives(ctx context.Context) bool {
	var v protocol.Session
	err := insist(ctx, func() (err error) {
		v, err = k.cl.Session(ctx, k.id)
		return err
	})
	return err == nil && v.State != "lost"
}

func keyOf(n int) string { return fmt.Sprint("cell-", n) }

func line(n int) string {
	return fmt.Sprintf("with open('ran', 'a') as f: _ = f.write('%d\\n')", n)
}

// run works until ctx ends, and returns between two cells.
func (k *keeper) run(ctx context.Context) error {
	all := context.WithoutCancel(ctx)
	for n := k.done(); ctx.Err() == nil; n++ {
		if err := k.cell(all, n); err != nil {
			return fmt.Errorf("cell %d: %w", n, err)
		}
		sleep(ctx, pause)
	}
	return nil
}

// prove checks each cell of which the user knows the end. The session knows its key. Its line is in
// the file once and in order, unless the log reports that the cell is lost. Then it is not there. A
// session that another node has taken over may lack the cells that ended after the copy from which it
// continued. The log has an event, unless event is empty. It returns how many cells are lost.
func (k *keeper) prove(ctx context.Context, event string) (lost int, err error) {
	conn, err := k.cl.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var last *wire.Kernel
	if err := insist(ctx, func() (err error) {
		last, err = conn.Kernel(ctx, k.id, "k1")
		return err
	}); err != nil {
		return 0, err
	}
	numbers := map[int]uint32{} // those that the session knows
	for n := range k.acks {
		var cell *wire.Cell
		if err := insist(ctx, func() (err error) {
			cell, err = last.Execute(ctx, "pass", wire.ExecuteOptions{Key: keyOf(n)})
			return err
		}); err != nil {
			return 0, err
		}
		if cell.Repeated() {
			numbers[n] = cell.Number()
		}
		_ = cell.Close()
	}
	log, err := k.read(ctx, conn, last)
	if err != nil {
		return 0, err
	}
	if event != "" && !slices.ContainsFunc(log.events, func(e string) bool {
		return strings.Contains(e, event)
	}) {
		return 0, fmt.Errorf("the log has no event %s", event)
	}
	var want strings.Builder
	for n, a := range k.acks {
		number, known := numbers[n]
		got := log.ends[number]
		switch {
		case !known && (a.end != "ok" || log.lacks(a.at)):
			lost++
		case !known:
			return 0, fmt.Errorf("the session does not know cell %d, which ended with %s at %s; %q",
				n, a.end, a.at, log.events)
		case got == "ok":
			fmt.Fprintln(&want, n)
		case got == "":
			return 0, fmt.Errorf("the log has no end of cell %d, which ended with %s", n, a.end)
		default:
			lost++
		}
	}
	var text []byte
	err = insist(ctx, func() error {
		r, err := k.cl.Download(ctx, k.id, "ran")
		if err != nil {
			return err
		}
		defer r.Close()
		text, err = io.ReadAll(r)
		return err
	})
	if err == nil && string(text) != want.String() {
		err = fmt.Errorf("the file has %q, want %q", text, want.String())
	}
	return lost, err
}

// kernelLog has what the log of a kernel says about its cells.
type kernelLog struct {
	ends   map[uint32]string // the ends of cells by number: ok, or the name of the error
	events []string          // in JSON
}

// lacks reports whether another node has taken the session over from a copy that was made before a
// time.
func (l kernelLog) lacks(at time.Time) bool {
	return slices.ContainsFunc(l.events, func(text string) bool {
		var e struct {
			Event string `json:"event"`
			AsOf  int64  `json:"as_of_ms"`
		}
		return json.Unmarshal([]byte(text), &e) == nil && e.Event == "taken_over" &&
			e.AsOf <= at.UnixMilli()
	})
}

// read reads the log of the kernel.
func (k *keeper) read(ctx context.Context, conn *wire.Conn, kern *wire.Kernel) (
	log kernelLog, err error,
) {
	log.ends = map[uint32]string{}
	cell, err := kern.Execute(ctx, "pass", wire.ExecuteOptions{})
	if err != nil {
		return log, err
	}
	v, err := conn.Attach(ctx, k.id, "k1", wire.AttachOptions{})
	if err != nil {
		return log, err
	}
	defer v.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for log.ends[cell.Number()] == "" {
		r, err := v.Next(ctx)
		if err != nil {
			return log, fmt.Errorf("the log has no end of cell %d: %v, %q: %w", cell.Number(), log.ends,
				log.events, err)
		}
		switch r.Kind {
		case frame.KindGap:
			return log, fmt.Errorf("a gap: %s", r.Payload)
		case frame.KindEvent:
			log.events = append(log.events, string(r.Payload))
		}
		if reply, ok := replyIn(r); ok {
			log.ends[r.Cell] = reply.EName
			if reply.Status == "ok" {
				log.ends[r.Cell] = "ok"
			}
		}
	}
	return log, nil
}

// replyIn returns the reply in a record of a kernel's log.
func replyIn(r frame.Record) (reply message.ExecuteReply, ok bool) {
	var m message.Message
	if r.Kind != frame.KindMessage || json.Unmarshal(r.Payload, &m) != nil ||
		m.Type != message.ExecuteReplyType {
		return reply, false
	}
	return reply, json.Unmarshal(m.Content, &reply) == nil
}
