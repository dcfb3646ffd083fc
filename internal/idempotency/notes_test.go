package idempotency

import (
	"context"
	"strconv"
	"strings"
	"testing"
)

// TestNotes: a note is for one turn, in the same life of its session. It needs a turn that has read
// the one before, and a turn that ends without one leaves none. Their number is bounded.
func TestNotes(t *testing.T) {
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(t.Context())
	turn := func(key string, life context.Context, leave string) (note string) {
		t.Helper()
		x, _, err := s.Ask(t.Context(), Request{Scope: Scope{Tenant: "t", Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		if life != nil {
			note = x.ReadNote(life)
		}
		x.LeaveNote(leave)
		x.Forget(nil)
		return note
	}
	for i, step := range []struct {
		key   string
		life  context.Context
		leave string
		want  string
	}{
		{"a", life, "first", ""},
		{"b", life, "", ""},
		{"a", life, "second", "first"},
		{"a", life, "", "second"},
		{"a", life, "third", ""},
		{"a", t.Context(), "", ""},
		{"a", life, strings.Repeat("x", maxNote+1), ""},
		{"a", nil, "not read", ""},
		{"a", life, "last", ""},
	} {
		if got := turn(step.key, step.life, step.leave); got != step.want {
			t.Errorf("step %d has the note %q, expected %q", i, got, step.want)
		}
	}
	end()
	if got := turn("a", life, ""); got != "" {
		t.Errorf("a session that has ended has %q", got)
	}
	for i := range maxNotes + 3 {
		s.notes.put(strconv.Itoa(i), note{"n", t.Context()})
	}
	if got := s.notes.remove(strconv.Itoa(maxNotes+2), t.Context()); got != "n" {
		t.Error("the newest note is lost")
	}
	if len(s.notes.all) != maxNotes-1 {
		t.Errorf("%d notes", len(s.notes.all))
	}
}
