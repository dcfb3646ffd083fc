package nodeapi

import (
	"context"
	"encoding/json"

	"github.com/sandgate/sandgate/internal/idempotency"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxTurns is how many operations a gateway may perform over one link at the same time.
const maxTurns = 16

// repeatBegin asks for the right to perform an operation of the gateway. It waits for another
// request with the key in the background.
func repeatBegin(ctx context.Context, c *call, p protocol.RepeatBegin,
	reply func(protocol.RepeatBegun, error),
) error {
	if err := protocol.CheckIdempotencyKey(c.op(), "key", p.Key); err != nil {
		return err
	}
	ch := c.request.Ch
	c.background(c.op(), func() {
		turn, kept, err := c.server.repeats.Ask(ctx, idempotency.Request{
			Scope: idempotency.Scope{
				Tenant: c.principal.Tenant, Subject: c.principal.Subject,
				Operation: p.Operation, Key: p.Key,
			},
			Hash: p.Hash, Secret: p.Secret,
		})
		var out protocol.RepeatBegun
		switch {
		case err != nil:
		case turn == nil:
			out.Response = new(protocol.RepeatResponse)
			err = fault.Wrap(fault.Internal, c.op(), json.Unmarshal(kept, out.Response))
		default:
			out.Seed, out.Again = turn.Seed, turn.Again
			if err = c.addTurn(ch, turn); err == nil && p.Turn {
				if s, e := c.session(p.Session); e == nil {
					out.Note = turn.ReadNote(s.Life())
				}
			}
		}
		reply(out, err)
	}, c.fail)
	return nil
}

// addTurn keeps a turn of the link until repeat.end or the end of the link.
func (c *call) addTurn(ch uint32, t *idempotency.Turn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.viewers == nil || c.turns[ch] != nil || len(c.turns) >= maxTurns {
		err := fault.New(fault.Canceled, c.op(), "the link has ended, or has no room")
		go t.Forget(err) // it writes to the disk
		return err
	}
	if c.turns == nil {
		c.turns = map[uint32]*idempotency.Turn{}
	}
	c.turns[ch] = t
	return nil
}

// repeatEnd ends an operation of the gateway.
func repeatEnd(_ context.Context, c *call, p protocol.RepeatEnd) (none, error) {
	c.mu.Lock()
	t := c.turns[c.request.Ch]
	delete(c.turns, c.request.Ch)
	c.mu.Unlock()
	switch {
	case t == nil:
		return none{}, fault.Invalid(c.op(), "ch", "no operation was begun as %d", c.request.Ch)
	case p.Response != nil:
		body, err := json.Marshal(p.Response)
		if err != nil {
			return none{}, fault.Wrap(fault.Internal, c.op(), err)
		}
		t.Done(body)
	case p.TooLarge:
		t.TooLarge()
	case p.Failed:
		t.LeaveNote(p.Note)
		t.Forget(fault.New(fault.Canceled, c.op(), "the first request has failed"))
	case p.Again:
		t.Leave()
	default:
		t.Break()
	}
	return none{}, nil
}
