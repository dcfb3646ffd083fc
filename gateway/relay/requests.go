package relay

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

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
	id := replyID(f.Body)
	if id == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.ids, id); i >= 0 {
		last := len(o.ids) - 1
		o.ids[i] = o.ids[last]
		o.ids = o.ids[:last]
	}
}

// replyID returns the id of a reply; 0 for an event. A node writes the id as the first field.
func replyID(body []byte) uint64 {
	rest, ok := bytes.CutPrefix(body, []byte(`{"id":`))
	if !ok {
		if bytes.HasPrefix(body, []byte(`{"event":`)) {
			return 0
		}
		var r struct {
			ID uint64 `json:"id"`
		}
		_ = json.Unmarshal(body, &r) // an id that cannot be read is none
		return r.ID
	}
	var id uint64
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		id = id*10 + uint64(c-'0')
	}
	return id
}
