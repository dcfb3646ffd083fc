package migrate

import (
	"context"
	"sync"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

const opUpdate = "node.update"

// Drainer drains the node in the background.
type Drainer struct {
	m *Migrator
	// changed is called after the node begins or ends to refuse sessions.
	changed func()

	mu sync.Mutex // guards all below; leaf
	// current is the drain that runs; nil for none.
	current *drain
	// moved and err are the result of the last drain; both nil without one.
	moved *nodes.Moved
	err   error
}

// drain is a drain that runs.
type drain struct{ cancel context.CancelFunc }

// NewDrainer returns a Drainer. changed is called when the node begins or ends to refuse sessions,
// so that the others learn it soon.
func NewDrainer(m *Migrator, changed func()) *Drainer { return &Drainer{m: m, changed: changed} }

// Start makes the node take no more sessions, and begins to move its sessions. While a drain runs,
// it does nothing. Errors: Unsupported without a blob store, Restarting when the node is closing.
func (d *Drainer) Start() error {
	if !d.m.Shared() {
		return errUnshared(opUpdate)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil {
		return nil
	}
	if _, open := d.m.cfg.Sessions.All(); !open {
		return errStopping()
	}
	d.m.cfg.Owner.Refuse()
	ctx, cancel := context.WithTimeout(context.Background(), protocol.MoveLimit)
	one := &drain{cancel}
	d.current, d.moved, d.err = one, nil, nil
	d.m.cfg.Go(func() {
		d.changed()
		defer cancel()
		moved, err := d.m.parkAll(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.current != one {
			return // it was stopped
		}
		d.current = nil
		if d.err = err; err == nil {
			d.moved = &moved
		}
	})
	return nil
}

// Stop lets the node take sessions again. A session that is moving moves; the others stay. Errors:
// Restarting when the node is about to end.
func (d *Drainer) Stop() error {
	if d.m.last.Load() {
		return errStopping()
	}
	d.mu.Lock()
	if d.current != nil {
		d.current.cancel()
	}
	d.current, d.moved, d.err = nil, nil, nil
	d.mu.Unlock()
	d.m.cfg.Owner.Accept()
	d.changed()
	return nil
}

// Fill adds the state of the node, and the result of the last drain.
func (d *Drainer) Fill(info *nodes.NodeInfo) {
	info.Movable = d.m.Shared()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.m.cfg.Owner.Refusing():
		info.State = nodes.Ready
		return
	case d.current != nil:
		info.State = nodes.Draining
	default:
		info.State = nodes.Drained
	}
	if info.Moved = d.moved; d.err != nil {
		info.DrainError = fault.PublicOf(d.err).Message
	}
}

// errUnshared is the error for a node whose sessions cannot move.
func errUnshared(op string) error {
	return fault.New(fault.Unsupported, op,
		"the node has no blob store to park sessions in: set cluster.blobs")
}

func errStopping() error { return fault.New(fault.Restarting, opUpdate, "the node is stopping") }
