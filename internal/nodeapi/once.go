package nodeapi

import (
	"context"
	"encoding/json"

	"github.com/sandgate/sandgate/internal/idempotency"
	"github.com/sandgate/sandgate/internal/session/names"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// repetition says how an operation treats idempotency keys.
type repetition struct {
	// secret is true if the result contains a secret.
	secret bool
	// sync is true if the operation creates something on disk.
	sync bool
	// find returns what an interrupted attempt has created. A NotFound error means that the operation
	// is done again. A nil find means that a repeat after an interrupted attempt is refused.
	find func(ctx context.Context, c *call) (any, error)
}

// repetitions returns how the operations with Creates treat keys, other than those that a gateway
// performs or that send their reply themselves.
func repetitions() map[string]repetition {
	redo := func(context.Context, *call) (any, error) {
		return nil, fault.New(fault.NotFound, "", "")
	}
	return map[string]repetition{
		protocol.OpSessionCreate: {sync: true, find: findCreated},
		protocol.OpFork:          {sync: true, find: findForks},
		protocol.OpSnapshot:      {sync: true, find: findSnapshot},
		protocol.OpVolumeCreate:  {sync: true, find: findVolume},
		// A repeated open finds the channel by its key.
		protocol.OpChannelOpen:   {find: redo},
		protocol.OpKeyCreate:     {secret: true, sync: true},
		protocol.OpKeyRotate:     {secret: true, sync: true},
		protocol.OpWebhookCreate: {secret: true, sync: true},
		protocol.OpWebhookRotate: {secret: true, sync: true},
	}
}

// once carries out an operation, or finds the reply to an earlier request with the same key.
func (c *call) once(ctx context.Context) (any, error) {
	key := c.request.IdempotencyKey
	how, keyed := c.server.repetitions[c.op()]
	if key == "" || !keyed {
		return c.recovered(ctx)
	}
	err := protocol.CheckIdempotencyKey("link.request", "idempotency_key", key)
	if err != nil {
		return nil, err
	}
	q := idempotency.Request{
		Scope: idempotency.Scope{
			Tenant: c.principal.Tenant, Subject: c.principal.Subject, Operation: c.op(), Key: key,
		},
		Hash: idempotency.Hash(c.request.Params), Secret: how.secret, Sync: how.sync,
	}
	turn, kept, err := c.server.repeats.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	if turn == nil {
		c.replayed = true
		return json.RawMessage(kept), nil
	}
	if turn.Again && how.find == nil {
		turn.Break()
		_, _, err := c.server.repeats.Ask(ctx, q) // it has the reason
		return nil, err
	}
	return c.first(names.WithSeed(ctx, turn.Seed), turn, how)
}

// first carries out an operation for the first request with a key, or for the first one after an
// interrupted attempt.
func (c *call) first(ctx context.Context, turn *idempotency.Turn, how repetition) (any, error) {
	defer turn.Break()
	var result any
	var err error = fault.New(fault.NotFound, c.op(), "it is not created yet")
	if turn.Again {
		if p := c.guard(c.op(), func() { result, err = how.find(ctx, c) }); p != nil {
			err = p
		}
	}
	if fault.Is(err, fault.NotFound) {
		result, err = c.recovered(ctx)
	}
	switch {
	case err == nil:
		var body []byte
		if body, err = json.Marshal(result); err != nil {
			return nil, fault.Wrap(fault.Internal, c.op(), err)
		}
		turn.Done(body)
	case fault.Is(err, fault.Internal):
		turn.Break()
	case turn.Again:
		turn.Leave()
	default:
		turn.Forget(err)
	}
	return result, err
}

// findCreated finds the session of an interrupted session.create.
func findCreated(ctx context.Context, c *call) (any, error) {
	s, err := c.session(names.IDs(ctx, 1)[0])
	if err == nil && s.IsLost() {
		c.server.cfg.Sessions.Delete(s)
		_, err = c.session(s.ID())
	}
	return viewOf(s, err)
}

// findForks finds the copies of an interrupted session.fork. If some are missing, it deletes the
// others.
func findForks(ctx context.Context, c *call) (any, error) {
	p, err := decode[protocol.SessionFork](c)
	if err != nil {
		return nil, err
	}
	var out protocol.Forks
	var missing error
	ids := names.IDs(ctx, min(max(p.Count, 1), protocol.MaxForks))
	for _, id := range ids {
		s, err := c.session(id)
		if err == nil && s.IsLost() {
			err = fault.New(fault.NotFound, c.op(), "the copy is lost")
		}
		if err != nil {
			missing = err
			continue
		}
		out.Sessions = append(out.Sessions, s.View())
	}
	if missing == nil {
		return out, nil
	}
	for _, id := range ids {
		if s, err := c.session(id); err == nil {
			c.server.cfg.Sessions.Delete(s)
		}
	}
	return nil, missing
}

// findSnapshot finds the snapshot of an interrupted session.snapshot by its name. The repeat for a
// snapshot without a name is refused.
func findSnapshot(ctx context.Context, c *call) (any, error) {
	p, err := decode[protocol.SnapshotCreate](c)
	if err != nil {
		return nil, err
	}
	if p.Name == "" {
		return nil, &fault.Error{
			Kind: fault.Conflict, Op: c.op(), Field: "idempotency_key",
			Message: "the request with this key was interrupted, and may have taken a snapshot; list " +
				"the snapshots, or repeat it with a new key",
		}
	}
	return c.server.cfg.Snapshots.Get(ctx, c.principal, p.Name)
}

// findVolume finds the volume of an interrupted volume.create by its name.
func findVolume(_ context.Context, c *call) (any, error) {
	p, err := decode[protocol.VolumeCreate](c)
	if err != nil {
		return nil, err
	}
	return c.server.cfg.Volumes.Get(c.principal, p.Name)
}
