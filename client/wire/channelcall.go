package wire

import (
	"context"
	"encoding/json"

	"github.com/sandgate/sandgate/protocol/fault"
)

// attachedLink waits until the viewer is attached on a link and returns that link.
func (v *Viewer) attachedLink(ctx context.Context) (*link, error) {
	for {
		v.mu.Lock()
		l, err, exited, changed := v.link, v.err, v.exited, v.changed
		v.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case exited:
			return nil, fault.New(fault.Conflict, "client.channel", "the program has ended")
		case l != nil && l.ended.Err() == nil:
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fault.Wrap(fault.KindOf(ctx.Err()), "client.channel", ctx.Err())
		}
	}
}

// call sends a request about the viewer's channel once the viewer is attached, and waits for the
// reply. repeat allows it to send the request again after a reconnection. result may be nil.
func (v *Viewer) call(ctx context.Context, name string, params, result any, repeat bool) error {
	for {
		l, err := v.attachedLink(ctx)
		if err != nil {
			return err
		}
		got := make(chan answer, 1)
		id, err := v.conn.startOn(ctx, l, name, v.ch, params, false,
			func(r json.RawMessage, err error) { got <- answer{r, err} })
		if err != nil {
			if l.ended.Err() != nil && ctx.Err() == nil && v.conn.Err() == nil {
				continue // it was not sent
			}
			return err
		}
		var a answer
		select {
		case a = <-got:
		case <-ctx.Done():
			v.conn.forget(id)
			return fault.Wrap(fault.KindOf(ctx.Err()), "client."+name, ctx.Err())
		}
		if a.err != nil && repeat && l.ended.Err() != nil && v.conn.Err() == nil {
			continue
		}
		return a.into(name, result)
	}
}
