package noderouter

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// lateAfter is how long frames of other sessions wait while the node of a session is found.
	lateAfter = 100 * time.Millisecond
	// maxLate is how many sessions of a link may be late, and maxLateBytes how many bytes of frames
	// may wait for each. The link waits then.
	maxLate, maxLateBytes = 64, 256 << 10
)

// search finds the node of a session. If that takes longer than lateAfter, because a node cannot be
// reached or adopts the session, the session is late: its frames wait here, and frames for other
// sessions pass. A late session gets a link of its own to its node, because the Data frames of
// another session could otherwise follow its requests.
type search struct {
	l       *Link
	session string
	found   chan struct{} // closed when the node is found and no frame waits, or with err

	mu     sync.Mutex // guards all below; before Link.mu
	isLate bool
	branch *branch
	err    error
	frames []frame.Frame
	size   int
}

// branch returns the branch for a request.
func (l *Link) branch(row protocol.Operation, r protocol.Request) (*branch, error) {
	session := fieldsOf(r.Params).Session
	if b := l.open(row, session); b != nil {
		return b, nil
	}
	s := &search{l: l, session: session, found: make(chan struct{})}
	l.mu.Lock()
	err, wait := l.err, session == "" || len(l.late) >= maxLate
	if err == nil {
		l.work.Go(func() { s.run(row, r) })
	}
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var late <-chan time.Time
	if !wait {
		timer := time.NewTimer(lateAfter)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-s.found:
	case <-late:
		if b := s.setLate(); b != nil {
			return b, nil
		}
	case <-l.ctx.Done():
		<-s.found
	}
	return s.branch, s.err
}

// open returns the branch for a session if it is open, or if the session is late; nil otherwise. It
// does not block.
func (l *Link) open(row protocol.Operation, session string) *branch {
	if row.Target != protocol.SessionNode || session == "" {
		return nil
	}
	l.mu.Lock()
	b := l.late[session]
	l.mu.Unlock()
	if b != nil {
		return b
	}
	o, known := l.router.resolver.Cached(cluster.SessionID(session))
	if !known || !o.Live {
		return nil
	}
	n, err := l.router.conn(o.Node, o.Address)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if b = l.nodes[n.id]; b == nil || b.of != n || l.err != nil {
		return nil
	}
	l.noteUse(b, session)
	return b
}

// noteUse records that a branch is used for a session. Preconditions: mu is held.
func (l *Link) noteUse(b *branch, session string) {
	b.sessions[session] = struct{}{}
	l.router.uses.use(b, cluster.SessionID(session))
}

// run finds the node and opens a link to it.
func (s *search) run(row protocol.Operation, r protocol.Request) {
	l := s.l
	ctx, span := l.router.tracer.Join(l.ctx, "relay", r.Trace)
	span.Set(trace.Operation, r.Op)
	n, err := l.router.node(ctx, l.who, row, r.Params)
	var link *noderpc.Link
	if err == nil {
		span.Set(trace.Node, string(n.id))
		l.mu.Lock()
		b := l.nodes[n.id]
		l.mu.Unlock()
		if b == nil || b.of != n {
			link, err = s.reach(n)
		}
	}
	span.End(err)
	s.mu.Lock()
	if !s.isLate {
		if s.err = err; err == nil {
			s.branch, s.err = l.share(n, link, s.session)
		}
		close(s.found)
		s.mu.Unlock()
		return
	}
	b := s.branch
	s.mu.Unlock()
	if err == nil && link == nil {
		link, err = s.reach(n)
	}
	if err == nil {
		b.of, b.link = n, link
		err = l.addLate(b, s.session)
	}
	s.deliver(err)
}

func (s *search) reach(n *nodeConn) (*noderpc.Link, error) {
	link, err := n.client.Open(s.l.ctx, s.l.who)
	if err != nil {
		s.l.router.resolver.Drop(cluster.SessionID(s.session))
	}
	return link, err
}

// share returns the branch to a node that the sessions of a link share. link is a new one, or nil if
// there is a branch.
func (l *Link) share(n *nodeConn, link *noderpc.Link, session string) (*branch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.nodes[n.id]
	isOpen := b != nil && b.of == n
	if link != nil && (isOpen || l.err != nil) {
		_ = link.Close()
	}
	if l.err != nil {
		return nil, l.err
	}
	if !isOpen {
		b = l.newBranch(nil)
		b.of, b.link = n, link
		l.nodes[n.id], l.branches[b] = b, struct{}{}
		l.work.Go(func() { l.pump(b) })
	}
	l.noteUse(b, session)
	return b, nil
}

// addLate adds the branch of a late session.
func (l *Link) addLate(b *branch, session string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		_ = b.link.Close()
		return l.err
	}
	l.branches[b] = struct{}{}
	l.noteUse(b, session)
	l.work.Go(func() { l.pump(b) })
	return nil
}

// setLate makes the session late, unless its node has been found meanwhile.
func (s *search) setLate() *branch {
	b := s.l.newBranch(s)
	s.l.mu.Lock()
	s.l.late[s.session] = b
	s.l.mu.Unlock()
	s.mu.Lock()
	select {
	case <-s.found:
		s.mu.Unlock()
		s.endLate()
		return nil
	default:
	}
	s.isLate, s.branch = true, b
	s.mu.Unlock()
	return b
}

// endLate ends the lateness of the session.
func (s *search) endLate() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	delete(s.l.late, s.session)
}

// add keeps a frame while the node is searched. It returns false when the frame can be sent.
func (s *search) add(f frame.Frame) (kept bool) {
	for {
		s.mu.Lock()
		select {
		case <-s.found:
			err := s.err
			s.mu.Unlock()
			if err != nil {
				s.turnDown(f, err)
			}
			return err != nil
		default:
		}
		if s.size < maxLateBytes {
			f.Body = slices.Clone(f.Body)
			s.frames = append(s.frames, f)
			s.size += frame.HeaderSize + len(f.Body)
			s.mu.Unlock()
			return true
		}
		s.mu.Unlock()
		<-s.found // run ends with the link's context
	}
}

// deliver sends the frames that wait, or refuses them with an error.
func (s *search) deliver(err error) {
	s.mu.Lock()
	for err == nil && len(s.frames) > 0 {
		frames := s.frames
		s.frames = nil
		s.mu.Unlock()
		if err = s.branch.link.Send(frames...); err != nil && s.l.reports {
			s.l.endBranch(s.branch, err)
			err = nil // the event has the requests that wait
		}
		s.mu.Lock()
	}
	s.err = err
	frames := s.frames
	s.frames = nil
	close(s.found)
	s.mu.Unlock()
	if err == nil {
		return
	}
	s.endLate()
	for _, f := range frames {
		s.turnDown(f, err)
	}
}

// turnDown answers a frame whose node was not found.
func (s *search) turnDown(f frame.Frame, err error) {
	l := s.l
	if f.Type != frame.Control {
		if f.Type != frame.Ack && f.Type != frame.Data {
			l.event(f.Channel, unattached("link.input", f.Channel))
		}
		return
	}
	var r protocol.Request
	_ = json.Unmarshal(f.Body, &r) // it was read before
	l.mu.Lock()
	if b := l.numbers[r.Ch]; b != nil && b.search == s {
		delete(l.numbers, r.Ch)
	}
	l.mu.Unlock()
	l.reply(r.ID, nil, err)
}

// send sends a frame to the node, or keeps it while the node is searched.
func (b *branch) send(f frame.Frame) error {
	if b.search != nil && b.search.add(f) {
		return nil
	}
	err := b.link.Send(f)
	if err != nil && b.client.reports {
		b.client.endBranch(b, err)
		return nil // the event has the request
	}
	return err
}
