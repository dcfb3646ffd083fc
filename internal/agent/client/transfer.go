package client

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// transfer is the data of a file, an archive or a connection, on its way between
// host and agent.
type transfer struct {
	mu      sync.Mutex // guards all below
	parts   [][]byte   // data from the agent that nobody has read yet
	size    int        // the size of parts in bytes
	end     bool       // the agent has sent its last part
	err     error
	upload  bool          // the agent may send no data
	acked   uint64        // how many bytes the agent has passed on
	changed chan struct{} // capacity 1: a field above has changed
	freed   chan struct{} // capacity 1: acked has changed, or the transfer has failed
}

func (t *transfer) wake() {
	for _, c := range []chan struct{}{t.changed, t.freed} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// receive stores a part until it is read. It returns false for a part after the end.
func (t *transfer) receive(f frame.Frame) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.wake()
	switch {
	case t.err != nil || t.end && f.Flags&wire.FlagAbort == 0:
		return false
	case f.Flags&wire.FlagAbort != 0:
		var p fault.Public
		if json.Unmarshal(f.Body, &p) != nil {
			p.Kind, p.Message = fault.Malformed, "the agent aborted the transfer without a reason"
		}
		t.err = p.Err("agent.file.read")
	case t.size+len(f.Body) > 2*wire.Window:
		t.err = fault.New(fault.Malformed, "agent.file.read", "the agent sent more than it may")
	case t.upload:
		t.err = fault.New(fault.Malformed, "agent.file.write", "the agent sent data to an upload")
	default:
		t.keep(f.Body)
		t.end = f.Flags&frame.FlagEnd != 0
	}
	return true
}

// keep stores the data of a part. Small parts share a slice, so that the memory of unread data
// depends on its size, not on the number of frames. Preconditions: mu is held.
func (t *transfer) keep(body []byte) {
	if len(body) == 0 {
		return
	}
	t.size += len(body)
	if n := len(t.parts) - 1; n >= 0 && len(t.parts[n])+len(body) <= wire.FileChunk {
		t.parts[n] = append(t.parts[n], body...)
		return
	}
	t.parts = append(t.parts, append([]byte(nil), body...))
}

// refuseData makes data from the agent an error.
func (t *transfer) refuseData() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.upload = true
}

// setAcked notes that the agent has passed on total bytes.
func (t *transfer) setAcked(total uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked = max(t.acked, total)
	t.wake()
}

func (t *transfer) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	t.wake()
}

// openTransfer registers a transfer. The caller must call the returned function
// when it has ended.
func (m *mux) openTransfer(op string, ch uint32) (*transfer, func(), error) {
	t := &transfer{changed: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, nil, m.err
	}
	if m.transfers[ch] != nil || m.flows[ch] != nil {
		return nil, nil, fault.New(fault.Conflict, op, "number %d is in use", ch)
	}
	m.transfers[ch] = t
	return t, func() {
		m.mu.Lock()
		delete(m.transfers, ch)
		m.mu.Unlock()
	}, nil
}

// abortTransfer asks the agent to end a transfer.
func (m *mux) abortTransfer(ch uint32) {
	_ = m.out.ack(frame.Frame{
		Type: frame.Data, Flags: frame.FlagEnd | wire.FlagAbort,
		Channel: ch,
	})
}

// upload sends a request and then body as Data.
func (m *mux) upload(ctx context.Context, name string, ch uint32, p any, body io.Reader,
	result any,
) error {
	op := "agent." + name
	t, forget, err := m.openTransfer(op, ch)
	if err != nil {
		return err
	}
	defer forget()
	t.refuseData()
	wait, cancel, err := m.ask(ctx, name, ch, p)
	if err != nil {
		return err
	}
	defer cancel()
	answer := func(r wire.Response, ok bool) error {
		if !ok {
			return m.ended()
		}
		return decode(op, r, result)
	}
	buf := make([]byte, wire.FileChunk)
	var sent uint64
	for end := false; !end; {
		n, err := io.ReadFull(body, buf)
		if end = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !end {
			m.abortTransfer(ch)
			return fault.Wrap(fault.KindOf(err), op, err)
		}
		if err := ctx.Err(); err != nil { // the last part would complete the upload
			m.abortTransfer(ch)
			return fault.Wrap(fault.KindOf(err), op, err)
		}
		for {
			t.mu.Lock()
			acked := t.acked
			t.mu.Unlock()
			if sent+uint64(n)-min(acked, sent) <= wire.Window {
				break
			}
			select {
			case <-t.changed:
			case r, ok := <-wait: // the upload has failed
				return answer(r, ok)
			case <-ctx.Done():
				m.abortTransfer(ch)
				return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
			}
		}
		f := frame.Frame{Type: frame.Data, Channel: ch, Body: buf[:n]}
		if end {
			f.Flags = frame.FlagEnd
		}
		if err := m.out.send(ctx, f); err != nil {
			m.abortTransfer(ch)
			return err
		}
		sent += uint64(n)
	}
	select {
	case r, ok := <-wait:
		return answer(r, ok)
	case <-ctx.Done():
		m.abortTransfer(ch)
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

// download sends a request and writes the Data that follows its response to w. It calls opened once
// result is decoded. opened returns the number of bytes that will come, or a negative number if
// that is unknown.
func (m *mux) download(ctx context.Context, name string, ch uint32, p, result any,
	opened func() (int64, error), w io.Writer,
) error {
	op := "agent." + name
	t, forget, err := m.openTransfer(op, ch)
	if err != nil {
		return err
	}
	defer forget()
	if err := m.call(ctx, name, ch, p, result); err != nil {
		if ctx.Err() != nil {
			m.abortTransfer(ch)
		}
		return err
	}
	left, err := opened()
	if err != nil {
		m.abortTransfer(ch)
		return err
	}
	known := left >= 0
	var got, told uint64
	for {
		t.mu.Lock()
		parts, end, err := t.parts, t.end, t.err
		t.parts, t.size = nil, 0
		t.mu.Unlock()
		for _, p := range parts {
			if left -= int64(len(p)); left < 0 && known {
				m.abortTransfer(ch)
				return fault.New(fault.Malformed, op, "the agent sent more than the file holds")
			}
			if _, err := w.Write(p); err != nil {
				m.abortTransfer(ch)
				return err
			}
			got += uint64(len(p))
			if got-told >= wire.AckEvery {
				var body [8]byte
				binary.BigEndian.PutUint64(body[:], got)
				if err := m.out.send(ctx, frame.Frame{
					Type: frame.Ack, Channel: ch,
					Body: body[:],
				}); err != nil {
					m.abortTransfer(ch)
					return err
				}
				told = got
			}
		}
		switch {
		case err != nil:
			return err
		case end && known && left > 0:
			return fault.New(fault.Malformed, op, "the agent sent less than the file holds")
		case end:
			return nil
		}
		select {
		case <-t.changed:
		case <-ctx.Done():
			m.abortTransfer(ch)
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
	}
}
