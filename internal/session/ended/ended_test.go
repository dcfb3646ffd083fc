package ended

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, file string) *Store {
	t.Helper()
	s, err := Open(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRemembers: a session is known after its end and in a later process, for a day, with the first
// reason.
func TestRemembers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ended")
	now := time.Now()
	s := open(t, file)
	one := Session{ID: "s_1", Tenant: "a", Subject: "x", Reason: "deleted", At: now}
	s.Remember(one)
	s.Remember(Session{ID: "s_1", Tenant: "a", Subject: "x", Reason: "expired", At: now})
	s.Remember(Session{ID: "s_2", Tenant: "a", Reason: "expired", At: now.Add(-Life)})
	for range 2 {
		if e, ok := s.Find("s_1", now); !ok || e.Reason != one.Reason || e.Subject != one.Subject ||
			!e.At.Equal(one.At) {
			t.Errorf("the session is %+v, %v", e, ok)
		}
		if e, ok := s.Find("s_3", now); ok {
			t.Errorf("a session that never was: %+v", e)
		}
		s = open(t, file)
	}
	if e, ok := s.Find("s_1", now.Add(Life)); ok {
		t.Errorf("after its time: %+v", e)
	}
}

// TestBounds: the oldest sessions of a tenant are forgotten first, those of other tenants stay, and
// the file does not grow without bounds.
func TestBounds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ended")
	now := time.Now()
	s := open(t, file)
	s.Remember(Session{ID: "s_other", Tenant: "b", Reason: "deleted", At: now})
	const most = 4 * MaxTenant
	for i := range most {
		s.Remember(Session{ID: fmt.Sprint("s_", i), Tenant: "a", Reason: "deleted", At: now})
	}
	for i, want := range map[int]bool{
		0: false, most - MaxTenant - 1: false, most - MaxTenant: true, most - 1: true,
	} {
		if _, ok := s.Find(fmt.Sprint("s_", i), now); ok != want {
			t.Errorf("session %d is known: %v", i, ok)
		}
	}
	if _, ok := s.Find("s_other", now); !ok {
		t.Error("the session of another tenant was forgotten")
	}
	data, err := os.ReadFile(file)
	if n := strings.Count(string(data), "\n"); err != nil || n > 2*(MaxTenant+1)+spareLines {
		t.Errorf("the file has %d lines: %v", n, err)
	}
	for i := range 2 * MaxAll {
		s.put(Session{ID: fmt.Sprint("t_", i), Tenant: fmt.Sprint("tenant", i), At: now})
	}
	if n := s.order.Len(); n != MaxAll || len(s.byID) != n || len(s.tenants) != n {
		t.Errorf("%d sessions, %d ids, %d tenants", n, len(s.byID), len(s.tenants))
	}
}

// TestDamagedLines: a line that a kill has cut short costs one session.
func TestDamagedLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ended")
	now := time.Now()
	open(t, file).Remember(Session{ID: "s_1", Tenant: "a", Reason: "deleted", At: now})
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(`{"id":"s_2","ten`)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, file)
	s.Remember(Session{ID: "s_3", Tenant: "a", Reason: "deleted", At: now})
	s = open(t, file)
	for id, want := range map[string]bool{"s_1": true, "s_2": false, "s_3": true} {
		if _, ok := s.Find(id, now); ok != want {
			t.Errorf("%s is known: %v", id, ok)
		}
	}
}
