package relay

import (
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestOpenRequests: an id is in use from its request to its reply, whatever the reply is.
func TestOpenRequests(t *testing.T) {
	var o openRequests
	for range 2 { // requests without an id are not counted
		if err := o.add(0); err != nil {
			t.Error(err)
		}
	}
	for _, reply := range []protocol.Reply{
		{ID: 7, Result: json.RawMessage(`{"id":8}`)},
		{ID: 7, Error: &fault.Public{Kind: fault.Conflict}},
	} {
		if err := o.add(7); err != nil {
			t.Error(err)
		}
		if err := o.add(8); err != nil {
			t.Error(err)
		}
		err := o.add(7)
		if p := fault.PublicOf(err); p.Kind != fault.Conflict || p.Field != "id" {
			t.Errorf("an id in use: %v", err)
		}
		event := protocol.Reply{Event: protocol.EventState, Params: json.RawMessage(`{"id":7}`)}
		o.answered(control(t, event))
		o.answered(frame.Frame{Type: frame.Records, Body: []byte(`{"id":7}`)})
		if o.add(7) == nil {
			t.Error("an event, or a frame of another type, is taken for a reply")
		}
		o.answered(control(t, reply))
		o.answered(frame.Frame{Type: frame.Control, Body: []byte(` {"result":{},"id":8}`)})
		if len(o.ids) != 0 {
			t.Errorf("still open: %v", o.ids)
		}
	}
	for id := range uint64(maxOpenRequests) {
		if err := o.add(id + 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.add(maxOpenRequests + 1); !fault.Is(err, fault.Exhausted) {
		t.Errorf("one request too many: %v", err)
	}
}

func control(t *testing.T, r protocol.Reply) frame.Frame {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return frame.Frame{Type: frame.Control, Body: body}
}
