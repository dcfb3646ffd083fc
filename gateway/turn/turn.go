// Package turn lets requests that use one session take turns. The node of the session keeps the turn,
// so it holds for all gateways, and ends with the link of a gateway that is killed.
package turn

import (
	"context"
	"log/slog"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// operation is the name of all turns. It is not in the operation table.
const operation = "turn"

// channel is the number of the turn on its link.
const channel = 1

// endGrace is how long the end of a turn may take.
const endGrace = 20 * time.Second

// Node is the part of a node that turns need.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
}

// Turns are the turns of requests. Every field is required.
type Turns struct {
	Node Node
	Log  *slog.Logger
	// Call is how long a request to the node may take.
	Call time.Duration
}

// Turn is a turn that was taken.
type Turn struct {
	// Note is a text that the turn before this one has left; empty if it has left none, or if the
	// session has moved or ended since then.
	Note string

	turns   Turns
	link    nodecall.Link
	session string
}

// TakeTurn is TakeNoted for turns without notes.
func (t Turns) TakeTurn(ctx context.Context, who noderpc.Principal, session string,
	wait time.Duration,
) (release func(), err error) {
	turn, err := t.TakeNoted(ctx, who, session, wait)
	if err != nil {
		return nil, err
	}
	return func() { turn.End("") }, nil
}

// TakeNoted waits until no other request uses a session, at most for the time wait. The turn ends with
// its End, or with the gateway. Errors: Conflict if others take too long.
func (t Turns) TakeNoted(ctx context.Context, who noderpc.Principal, session string,
	wait time.Duration,
) (*Turn, error) {
	opening, cancel := context.WithTimeout(ctx, t.Call)
	defer cancel()
	link, err := t.Node.Open(opening, who)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	stop := context.AfterFunc(waiting, func() { _ = link.Close() })
	var begun protocol.RepeatBegun
	err = nodecall.Call(link, 1, protocol.OpRepeatBegin, channel, protocol.RepeatBegin{
		Operation: operation, Key: session, Session: session, Turn: true,
	}, &begun, nil)
	if stop() && err == nil {
		return &Turn{Note: begun.Note, turns: t, link: link, session: session}, nil
	}
	_ = link.Close()
	switch {
	case ctx.Err() != nil:
		err = fault.Wrap(fault.Canceled, "turn.take", ctx.Err())
	case waiting.Err() != nil:
		err = &fault.Error{
			Kind: fault.Conflict, Op: "turn.take", Field: "session",
			Message: "other requests use the session",
		}
	}
	return nil, err
}

// End ends the turn, and leaves a note of at most 256 bytes for the next one.
func (t *Turn) End(note string) {
	defer time.AfterFunc(endGrace, func() { _ = t.link.Close() }).Stop()
	err := nodecall.Call(t.link, 2, protocol.OpRepeatEnd, channel,
		protocol.RepeatEnd{Failed: true, Note: note}, nil, nil)
	_ = t.link.Close()
	if err != nil {
		t.turns.Log.Warn("the turn of a session ended with its link", "session", t.session,
			"error", err)
	}
}
