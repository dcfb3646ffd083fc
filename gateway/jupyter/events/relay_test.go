package events

import "testing"

// bus is a Relay that has room for some messages.
type bus struct {
	room     int
	receives []func([]byte)
}

func (b *bus) Receive(f func([]byte)) { b.receives = append(b.receives, f) }

func (b *bus) Send(message []byte) bool {
	if b.room == 0 {
		return false
	}
	b.room--
	for _, f := range b.receives {
		f(message)
	}
	return true
}

// TestRelay: an event reaches the subscribers of its tenant at each gateway once, and one that the
// others do not get is counted.
func TestRelay(t *testing.T) {
	b, lost := &bus{room: 1}, 0
	var here, there Hub
	here.Connect(b, func() { lost++ })
	there.Connect(b, func() { t.Error("the gateway that only receives has lost an event") })
	path := "f"
	all := []*Subscriber{
		here.Subscribe(Reader{Tenant: "a", Subject: "u"}),
		there.Subscribe(Reader{Tenant: "a", Subject: "v"}),
		there.Subscribe(Reader{Tenant: "b", Subject: "u"}),
	}
	e := Event{Schema: "x", Data: map[string]any{"action": "get"}, Path: &path, Session: "s_1"}
	here.Publish("a", e)
	for i, want := range []string{"x s_1/f ", "x s_1/f ", ""} {
		if got := next(t, all[i]); got != want {
			t.Errorf("the subscriber %d gets %q, want %q", i, got, want)
		}
		if got := next(t, all[i]); got != "" {
			t.Errorf("the subscriber %d gets %q in addition", i, got)
		}
	}
	here.Publish("a", e)
	if got := next(t, all[0]); got != "x s_1/f " || lost != 1 {
		t.Errorf("an event that only this gateway gets is %q, and %d are lost", got, lost)
	}
	for _, message := range []string{"", "{", `{"from": 1}`, "null"} {
		b.receives[0]([]byte(message)) // no subscriber gets one
	}
	if got := next(t, all[0]); got != "" {
		t.Errorf("a malformed message gives %q", got)
	}
}
