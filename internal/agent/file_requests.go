package agent

import (
	"encoding/json"

	"github.com/sandgate/sandgate/internal/agent/files"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// fileTransfer is the transfer of one operation on files.
type fileTransfer struct {
	*transfer
	request uint64 // the number of the request
}

// startFile starts an operation on files.
func (s *Server) startFile(r wire.Request) {
	var q files.Params
	var o files.Operation
	err := params(r, &q)
	if err == nil {
		o, err = s.files.NewOperation(r.Op, q)
	}
	data := false
	switch r.Op {
	case wire.OpFileWrite, wire.OpFileRead, wire.OpFileWatch, wire.OpTreeRead, wire.OpTreeWrite:
		data = true
	}
	t := &transfer{
		s: s, id: r.Channel, watch: r.Op == wire.OpFileWatch,
		changed: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	t.win.wake = t.signalRoom
	if err == nil {
		err = s.addTransfer("agent."+r.Op, t, data)
	}
	if err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	s.files.Run(o, fileTransfer{transfer: t, request: r.ID}, func() {
		s.removeTransfer(t, data)
		s.wg.Done()
	})
}

// Respond answers the request.
func (t fileTransfer) Respond(result any, err error) { t.s.respond(t.request, result, err) }

// Put sends n bytes of buf, which has room for a header in front, once the host's window has room.
func (t fileTransfer) Put(buf []byte, n int) error { return t.put(buf, n) }

// OnAbort sets a function that an abort calls, and calls it at once after an abort.
func (t fileTransfer) OnAbort(cut func()) {
	t.mu.Lock()
	t.cut = cut
	aborted := t.aborted
	t.mu.Unlock()
	if aborted {
		cut()
	}
}

// Finish sends the end of the data, or the error.
func (t fileTransfer) Finish(err error) {
	if t.isAborted() {
		return
	}
	end := frame.Frame{Type: frame.Data, Flags: frame.FlagEnd, Channel: t.id}
	if err != nil {
		end.Flags |= wire.FlagAbort
		end.Body, _ = json.Marshal(fault.PublicOf(err))
	}
	t.s.host.write(frame.Append(nil, end))
}
