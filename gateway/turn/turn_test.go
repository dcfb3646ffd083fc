package turn

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// node has one turn, which its links get one after the other.
type node struct {
	turn  chan struct{} // it has an element while the turn is free
	mu    sync.Mutex    // guards all below
	begun []protocol.RepeatBegin
	ends  int
}

func newNode() *node {
	n := &node{turn: make(chan struct{}, 1)}
	n.turn <- struct{}{}
	return n
}

func (n *node) Open(context.Context, noderpc.Principal) (nodecall.Link, error) {
	return &link{n: n, replies: make(chan frame.Frame, 1), done: make(chan struct{})}, nil
}

type link struct {
	n       *node
	replies chan frame.Frame
	once    sync.Once
	done    chan struct{}
}

func (l *link) Next() (frame.Frame, error) {
	select {
	case f := <-l.replies:
		return f, nil
	case <-l.done:
		return frame.Frame{}, io.EOF
	}
}

func (l *link) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *link) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		var r protocol.Request
		if err := json.Unmarshal(f.Body, &r); err != nil {
			return err
		}
		go l.serve(r)
	}
	return nil
}

func (l *link) serve(r protocol.Request) {
	n := l.n
	switch r.Op {
	case protocol.OpRepeatBegin:
		select {
		case <-n.turn:
		case <-l.done:
			return
		}
		var p protocol.RepeatBegin
		_ = json.Unmarshal(r.Params, &p)
		n.mu.Lock()
		n.begun = append(n.begun, p)
		n.mu.Unlock()
	case protocol.OpRepeatEnd:
		n.mu.Lock()
		n.ends++
		n.mu.Unlock()
		n.turn <- struct{}{}
	}
	body, _ := json.Marshal(protocol.Reply{ID: r.ID, Result: json.RawMessage("{}")})
	l.replies <- frame.Frame{Type: frame.Control, Body: body}
}

// TestTurns: the second request waits for the release of the first, a third one gives up in time, and
// one that leaves takes no turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		turns := Turns{Node: n, Log: slog.New(slog.DiscardHandler), Call: time.Minute}
		take := func(ctx context.Context, wait time.Duration) (func(), error) {
			return turns.TakeTurn(ctx, noderpc.Principal{Tenant: "t"}, "s_1", wait)
		}
		first, err := take(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := take(t.Context(), 3*time.Second); !fault.Is(err, fault.Conflict) ||
			fault.PublicOf(err).Field != "session" || time.Since(begin) != 3*time.Second {
			t.Errorf("a request that waits too long: %v after %s", err, time.Since(begin))
		}
		gone, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := take(gone, time.Minute); !fault.Is(err, fault.Canceled) {
			t.Errorf("a request that leaves: %v", err)
		}
		second := make(chan error)
		go func() {
			release, err := take(t.Context(), time.Minute)
			if err == nil {
				release()
			}
			second <- err
		}()
		synctest.Wait()
		if len(n.begun) != 1 {
			t.Errorf("%d requests have the turn", len(n.begun))
		}
		first()
		if err := <-second; err != nil {
			t.Error(err)
		}
		if len(n.begun) != 2 || n.ends != 2 || !n.begun[0].Turn || n.begun[0].Session != "s_1" ||
			n.begun[0].Key != "s_1" {
			t.Errorf("%d ends, %+v", n.ends, n.begun)
		}
	})
}
