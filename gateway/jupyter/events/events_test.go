package events

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// next returns the schema and the path of the next event; empty if none waits.
func next(t *testing.T, s *Subscriber) string {
	t.Helper()
	if len(s.waiting) == 0 && s.err == nil {
		return ""
	}
	text, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Schema string `json:"schema_id"`
		Path   string
		Source string `json:"source_path"`
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{e.Schema, e.Path, e.Source}, " ")
}

// TestReaders: a subscriber gets the events of its tenant and its session, with the paths of its
// server.
func TestReaders(t *testing.T) {
	var h Hub
	wide := h.Subscribe(Reader{Tenant: "a", Subject: "u", Home: "s_old"})
	other := h.Subscribe(Reader{Tenant: "a", Subject: "v"})
	one := h.Subscribe(Reader{Tenant: "a", Session: "s_1"})
	two := h.Subscribe(Reader{Tenant: "a", Session: "s_2"})
	foreign := h.Subscribe(Reader{Tenant: "b"})
	foreignOne := h.Subscribe(Reader{Tenant: "b", Session: "s_1"})
	path, source, user, nowhere, here := "f", "g/h", "u", "", "s_1"
	all := []*Subscriber{wide, other, one, two, foreign, foreignOne}
	for _, c := range []struct {
		e    Event
		want []string
	}{
		{
			Event{Schema: "x", Path: &path, Source: &source, Session: "s_1"},
			[]string{"x s_1/f s_1/g/h", "x s_1/f s_1/g/h", "x f g/h", "", "", ""},
		},
		{
			Event{Schema: "x", Path: &path, Session: "s_2", Home: &user},
			[]string{"x f ", "x s_2/f ", "", "x f ", "", ""},
		},
		{Event{Schema: "y", Only: &nowhere}, []string{"y  ", "y  ", "", "", "", ""}},
		{Event{Schema: "y", Only: &here, Session: here}, []string{"", "", "y  ", "", "", ""}},
	} {
		h.Publish("a", c.e)
		for i, s := range all {
			if got := next(t, s); got != c.want[i] {
				t.Errorf("the subscriber %d gets %q, want %q", i, got, c.want[i])
			}
		}
	}
	for _, s := range all {
		s.Close()
	}
	if len(h.all) != 0 {
		t.Errorf("%d tenants are left", len(h.all))
	}
}

// TestSlow: a subscriber that does not read ends, and no other does.
func TestSlow(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("x", 16<<10)} {
		var h Hub
		slow, fast := h.Subscribe(Reader{Tenant: "a"}), h.Subscribe(Reader{Tenant: "a"})
		for range maxWaiting + 1 {
			h.Publish("a", Event{Schema: "x", Data: map[string]any{"text": text}})
			if _, err := fast.Next(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := slow.Next(); !fault.Is(err, fault.Slow) || slow.waiting != nil {
			t.Errorf("a slow subscriber: %v", err)
		}
	}
}

// TestEnd: an end wakes a subscriber that waits, and its first reason counts.
func TestEnd(t *testing.T) {
	var h Hub
	s := h.Subscribe(Reader{Tenant: "a"})
	want := errors.New("gone")
	done := make(chan error)
	go func() {
		_, err := s.Next()
		done <- err
	}()
	s.End(want)
	s.Close()
	if err := <-done; !errors.Is(err, want) {
		t.Errorf("it ends with %v", err)
	}
}
