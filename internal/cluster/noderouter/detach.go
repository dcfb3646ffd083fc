package noderouter

import (
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// A link without ReportDetached ends with its first branch. A link with it survives its branches: the
// end of a branch removes the branch and is reported by one event. The event has the numbers that were
// attached there and the requests without a reply, so that each request gets either its reply or its
// place in one event.
//
// The numbers stay in Link.numbers until the client attaches or detaches them, because the client may
// use them before it reads the event: such input is dropped, and such a request gets the branch's
// error after the event.

// ReportDetached makes the link report the end of a branch with the event detached, and continue. It
// must be called before Send and Next.
func (l *Link) ReportDetached() { l.reports = true }

// register notes a request at its branch: the number that it chooses, and that it has no reply yet.
// It returns false if the branch has ended meanwhile.
func (l *Link) register(b *branch, row protocol.Operation, r protocol.Request) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.err != nil {
		return false, nil
	}
	var chosen uint32
	if row.Channel == protocol.ChoosesChannel && r.Ch != 0 {
		if _, known := l.numbers[r.Ch]; !known && len(l.numbers) >= maxNumbers {
			maps.DeleteFunc(l.numbers, func(_ uint32, b *branch) bool { return b.err != nil })
		}
		if _, known := l.numbers[r.Ch]; !known && len(l.numbers) >= maxNumbers {
			return false, fault.New(fault.Exhausted, "link.attach",
				"a connection attaches at most %d channels", protocol.MaxAttached)
		}
		if l.numbers[r.Ch] != b {
			chosen = r.Ch
		}
		l.numbers[r.Ch] = b
	}
	if l.reports && r.ID != 0 {
		b.open[r.ID] = chosen
	}
	l.last = b
	return true, nil
}

// answered notes that a frame of a branch may be the reply to one of its requests. If the node has
// refused to attach a number, the number is free again: the client may attach it elsewhere, and the
// end of this branch does not concern it.
func (l *Link) answered(b *branch, f frame.Frame) {
	if !l.reports || f.Type != frame.Control {
		return
	}
	id := nodecall.ReplyID(f.Body)
	if id == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	chosen := b.open[id]
	delete(b.open, id)
	if chosen == 0 || l.numbers[chosen] != b {
		return
	}
	var reply protocol.Reply
	if json.Unmarshal(f.Body, &reply) == nil && reply.Error != nil {
		delete(l.numbers, chosen)
	}
}

// refuseEnded answers a request that names a number of a branch that has ended.
func (l *Link) refuseEnded(b *branch, id uint64) {
	if id == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.work.Go(func() {
		select {
		case <-b.reported:
			l.answer(protocol.Reply{ID: id}, b.err)
		case <-l.ctx.Done():
		}
	})
}

// endBranch ends a branch with an error, or the whole link if it does not report that.
func (l *Link) endBranch(b *branch, err error) {
	if !l.reports {
		l.shutdown(err)
		return
	}
	l.mu.Lock()
	if b.cause == nil {
		b.cause = err
	}
	l.mu.Unlock()
	_ = b.link.Close() // pump notices it
}

// ended handles the end of a branch's link. Only pump calls it.
func (l *Link) ended(b *branch, err error) {
	l.mu.Lock()
	for id := range b.sessions {
		l.router.resolver.Drop(cluster.SessionID(id))
	}
	if !l.reports || l.err != nil {
		l.mu.Unlock()
		l.shutdown(err)
		return
	}
	switch {
	case b.cause != nil:
		err = b.cause
	case err == io.EOF:
		err = fault.New(fault.Unavailable, "noderouter.link",
			"the session's node has ended the connection")
	}
	event := l.remove(b, err)
	l.mu.Unlock()
	_ = b.link.Close()
	if len(event.Channels)+len(event.Requests) > 0 {
		params, err := json.Marshal(event)
		if err != nil {
			l.shutdown(fault.Wrap(fault.Internal, "noderouter.detached", err))
			return
		}
		l.control(protocol.Reply{Event: protocol.EventDetached, Params: params})
	}
	close(b.reported)
}

// remove removes a branch that has ended, and returns what the client must know. Preconditions: mu is
// held.
func (l *Link) remove(b *branch, err error) protocol.Detached {
	b.err = err
	delete(l.branches, b)
	if l.nodes[b.of.id] == b {
		delete(l.nodes, b.of.id)
	}
	if b.search != nil && l.late[b.search.session] == b {
		delete(l.late, b.search.session)
	}
	if l.last == b {
		l.last = nil
	}
	l.router.uses.remove(b)
	event := protocol.Detached{
		Requests: slices.Sorted(maps.Keys(b.open)), Error: fault.PublicOf(err),
	}
	for ch, of := range l.numbers {
		if of == b {
			event.Channels = append(event.Channels, ch)
		}
	}
	slices.Sort(event.Channels)
	b.open = nil
	return event
}
