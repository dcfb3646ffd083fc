package relay

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// maxOpenRequests is the largest number of requests of a WebSocket without a reply. A node refuses
// a connection's requests far below it, so only a client that does not read its replies gets there.
const maxOpenRequests = 1024

// openRequests are the ids of a WebSocket's requests that have no reply yet. Few are open at once,
// so that a slice is smaller and faster than a map.
type openRequests struct {
	mu  sync.Mutex // leaf
	ids []uint64
}

// add notes a request. It fails if another request with the id is open.
func (o *openRequests) add(id uint64) error {
	const op = "relay.request"
	if id == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case slices.Contains(o.ids, id):
		return &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "id",
			Message: "another request with this id has no reply yet",
		}
	case len(o.ids) >= maxOpenRequests:
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, RetryAfter: 1,
			Message: "too many requests of this connection are under way",
		}
	}
	o.ids = append(o.ids, id)
	return nil
}

// answered forgets the request that a frame of the node answers. It must be called before the client
// can read the reply: from then on the id is free.
func (o *openRequests) answered(f frame.Frame) {
	if f.Type != frame.Control {
		return
	}
	if id := nodecall.ReplyID(f.Body); id != 0 {
		o.forgetID(id)
	}
}

// forgetID forgets a request.
func (o *openRequests) forgetID(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.ids, id); i >= 0 {
		last := len(o.ids) - 1
		o.ids[i] = o.ids[last]
		o.ids = o.ids[:last]
	}
}

// detachedBegin begins the text of the event detached.
var detachedBegin = []byte(`{"event":"` + protocol.EventDetached + `"`)

// detachedRequests returns the ids of the requests that get no reply, if a frame is the event
// detached.
func detachedRequests(f frame.Frame) []uint64 {
	if f.Type != frame.Control || !bytes.HasPrefix(f.Body, detachedBegin) {
		return nil
	}
	var r struct {
		Params protocol.Detached `json:"params"`
	}
	_ = json.Unmarshal(f.Body, &r) // the router has written it
	return r.Params.Requests
}

// wantsDetached reports whether a hello asks for the event detached.
func wantsDetached(hello []byte) bool {
	var r struct {
		Params protocol.Hello `json:"params"`
	}
	_ = json.Unmarshal(hello, &r) // parameters of other forms ask for nothing
	return slices.Contains(r.Params.Events, protocol.EventDetached)
}
