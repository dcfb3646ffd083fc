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

// TakeTurn waits until no other request uses a session, at most for the time wait. The turn ends with
// release, or with the gateway. Errors: Conflict if others take too long.
func (t Turns) TakeTurn(ctx context.Context, who noderpc.Principal, session string,
	wait time.Duration,
) (release func(), err error) {
	opening, cancel := context.WithTimeout(ctx, t.Call)
	defer cancel()
	link, err := t.Node.Open(opening, who)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	stop := context.AfterFunc(waiting, func() { _ = link.Close() })
	err = nodecall.Call(link, 1, protocol.OpRepeatBegin, channel, protocol.RepeatBegin{
		Operation: operation, Key: session, Session: session, Turn: true,
	}, nil, nil)
	if stop() && err == nil {
		return func() { t.endTurn(link, session) }, nil
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

// endTurn ends a turn.
func (t Turns) endTurn(link nodecall.Link, session string) {
	defer time.AfterFunc(endGrace, func() { _ = link.Close() }).Stop()
	err := nodecall.Call(link, 2, protocol.OpRepeatEnd, channel, protocol.RepeatEnd{Failed: true},
		nil, nil)
	_ = link.Close()
	if err != nil {
		t.Log.Warn("the turn of a session ended with its link", "session", session, "error", err)
	}
}
