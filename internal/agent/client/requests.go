package client

import (
	"context"
	"encoding/json"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// requestFrame encodes a request. The body is nil if p is no valid JSON.
func requestFrame(id uint64, op string, ch uint32, p any) frame.Frame {
	// The parameters are encoded together with the request: the encoder would
	// check a RawMessage once more.
	body, err := json.Marshal(struct {
		ID      uint64 `json:"id,omitempty"`
		Op      string `json:"op"`
		Channel uint32 `json:"channel,omitempty"`
		Params  any    `json:"params,omitempty"`
	}{id, op, ch, p})
	if err != nil {
		body = nil
	}
	return frame.Frame{Type: frame.Control, Body: body}
}

// call sends a request and waits for its response.
func (m *mux) call(ctx context.Context, op string, ch uint32, p, result any) error {
	wait, cancel, err := m.ask(ctx, op, ch, p)
	if err != nil {
		return err
	}
	defer cancel()
	return m.answer(ctx, op, wait, result)
}

// ask sends a request. The returned channel gets its response, or is closed when the wire ends. The
// caller must call the returned function at the end.
func (m *mux) ask(ctx context.Context, op string, ch uint32,
	p any,
) (<-chan wire.Response, func(), error) {
	wait := make(chan wire.Response, 1)
	m.mu.Lock()
	err := m.err
	if err == nil {
		err = wire.Check(op, p, m.revision)
	}
	if err != nil {
		defer m.mu.Unlock()
		return nil, nil, err
	}
	m.nextID++
	id := m.nextID
	m.waiting[id] = wait
	if q, ok := p.(kernel.Request); ok && q.Op == "execute" && m.flows[ch] != nil {
		m.flows[ch].asked = id
	}
	m.mu.Unlock()
	cancel := func() {
		m.mu.Lock()
		delete(m.waiting, id)
		m.mu.Unlock()
	}
	f := requestFrame(id, op, ch, p)
	err = fault.Invalid("agent."+op, "params", "the parameters cannot be written as JSON")
	if f.Body != nil {
		err = m.out.send(ctx, f)
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return wait, cancel, nil
}

// answer waits for a response and decodes it.
func (m *mux) answer(ctx context.Context, op string, wait <-chan wire.Response, result any) error {
	r, err := m.await(ctx, op, wait)
	if err != nil {
		return err
	}
	return decode("agent."+op, r, result)
}

// await waits for a response.
func (m *mux) await(ctx context.Context, op string,
	wait <-chan wire.Response,
) (r wire.Response, err error) {
	op = "agent." + op
	var ok bool
	select {
	case r, ok = <-wait:
	case <-ctx.Done():
		select {
		case r, ok = <-wait: // the answer came before ctx ended
		default:
			return r, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
	}
	if !ok {
		return r, m.ended()
	}
	return r, nil
}

// decode returns the error that a response carries, or decodes its result.
func decode(op string, r wire.Response, result any) error {
	if len(r.Error) > 0 {
		var p fault.Public
		if err := json.Unmarshal(r.Error, &p); err != nil {
			return fault.Wrap(fault.Malformed, op, err)
		}
		return p.Err(op)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(r.Result, result); err != nil {
		return fault.Wrap(fault.Malformed, op, err)
	}
	return nil
}
