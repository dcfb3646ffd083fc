//go:build chaos

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

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

	mu   sync.Mutex // guards all below
	acks []string   // the end of each cell: ok, or the name of the loss
}

// begin creates a durable session, and waits for its first copy: before that a session may be lost
// with its node.
func (k *keeper) begin(t *testing.T, u *traffic) {
	t.Helper()
	yes := true
	k.s = u.a.server(u.a.front.address())
	k.cl = u.cl
	made, err := k.cl.CreateSession(u.ctx, protocol.SessionCreate{
		Language: "python", Name: k.name, Durable: &yes,
	})
	check(t, err)
	k.id = made.ID
	u.h.ledger.made(k.id)
	k.conn, err = k.cl.Connect(u.ctx)
	check(t, err)
	t.Cleanup(func() { k.conn.Close() })
	k.kern, err = k.conn.Kernel(u.ctx, k.id, "k1")
	check(t, err)
	check(t, k.cell(u.ctx, 0))
	eventually(t, "the first copy of "+k.name, func() bool {
		v, err := k.cl.Session(u.ctx, k.id)
		return err == nil && v.KeptMS > 0
	})
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
	k.acks = append(k.acks, end)
	return nil
}

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
		sleep(ctx, listPause)
	}
	return nil
}

// prove checks each cell of which the user knows the end. The session knows its key. Its line is in
// the file once and in order, unless the log reports that the cell is lost. Then it is not there.
// The log has an event, unless event is empty. It returns how many cells are lost.
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
	numbers := make([]uint32, len(k.acks))
	for n, end := range k.acks {
		var cell *wire.Cell
		if err := insist(ctx, func() (err error) {
			cell, err = last.Execute(ctx, "raise SystemError('again')",
				wire.ExecuteOptions{Key: keyOf(n)})
			return err
		}); err != nil {
			return 0, err
		}
		if !cell.Repeated() && end == "ok" {
			return 0, fmt.Errorf("the session does not know cell %d, which ended with %s", n, end)
		}
		numbers[n] = cell.Number()
		_ = cell.Close()
	}
	ends, err := k.ends(ctx, conn, last, event)
	if err != nil {
		return 0, err
	}
	var want strings.Builder
	for n, end := range k.acks {
		switch got := ends[numbers[n]]; {
		case got == "ok":
			fmt.Fprintln(&want, n)
		case got == "":
			return 0, fmt.Errorf("the log has no end of cell %d, which ended with %s", n, end)
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

// ends returns the ends of all cells in the log of the kernel: ok, or the name of the error.
func (k *keeper) ends(ctx context.Context, conn *wire.Conn, kern *wire.Kernel, event string) (
	map[uint32]string, error,
) {
	cell, err := kern.Execute(ctx, "pass", wire.ExecuteOptions{})
	if err != nil {
		return nil, err
	}
	v, err := conn.Attach(ctx, k.id, "k1", wire.AttachOptions{})
	if err != nil {
		return nil, err
	}
	defer v.Close()
	ends := map[uint32]string{}
	for ends[cell.Number()] == "" {
		r, err := v.Next(ctx)
		if err != nil {
			return nil, err
		}
		switch r.Kind {
		case frame.KindGap:
			return nil, fmt.Errorf("a gap: %s", r.Payload)
		case frame.KindEvent:
			if event != "" && strings.Contains(string(r.Payload), event) {
				event = ""
			}
		}
		if reply, ok := replyIn(r); ok {
			ends[r.Cell] = reply.EName
			if reply.Status == "ok" {
				ends[r.Cell] = "ok"
			}
		}
	}
	if event != "" {
		return nil, fmt.Errorf("the log has no event %s", event)
	}
	return ends, nil
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
