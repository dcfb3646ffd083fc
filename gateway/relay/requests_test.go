package relay

import (
	"encoding/json"
	"slices"
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

// TestDetachedRequests: the event detached ends the requests that it lists. A client asks for it in
// its hello.
func TestDetachedRequests(t *testing.T) {
	var o openRequests
	for id := range uint64(3) {
		if err := o.add(id + 1); err != nil {
			t.Fatal(err)
		}
	}
	params, err := json.Marshal(protocol.Detached{Channels: []uint32{4}, Requests: []uint64{1, 3}})
	if err != nil {
		t.Fatal(err)
	}
	event := control(t, protocol.Reply{Event: protocol.EventDetached, Params: params})
	o.answered(event)
	for _, id := range detachedRequests(event) {
		o.forgetID(id)
	}
	if !slices.Equal(o.ids, []uint64{2}) {
		t.Errorf("still open: %v", o.ids)
	}
	other := control(t, protocol.Reply{Event: protocol.EventState, Params: params})
	if ids := detachedRequests(other); ids != nil {
		t.Errorf("another event lists %v", ids)
	}
	for hello, want := range map[string]bool{
		`{"id":1,"op":"hello","params":{"client":"x","events":["other","detached"]}}`: true,
		`{"id":1,"op":"hello","params":{"events":["other"]}}`:                         false,
		`{"id":1,"op":"hello","params":{"events":"detached"}}`:                        false,
		`{"id":1,"op":"hello"}`: false,
	} {
		if got := wantsDetached([]byte(hello)); got != want {
			t.Errorf("%s asks for the event: %t", hello, got)
		}
	}
}
