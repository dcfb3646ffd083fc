package volume

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestVolumeWait: a volume is measured before it can be full, a session that finds it
// full may remove files, and a session that writes far more ends.
func TestVolumeWait(t *testing.T) {
	v := &Store{cfg: Config{Every: 5 * time.Second}}
	for _, c := range []struct {
		max, used int64
		cost      time.Duration
		grows     bool
		want      time.Duration
	}{
		{max: 100 << 30, want: 5 * time.Second},
		{max: 2 << 30, used: 1 << 30, want: time.Second},
		{max: 1 << 30, used: 1 << 30, want: 50 * time.Millisecond},
		{max: 1 << 30, used: 2 << 30, want: 50 * time.Millisecond},
		{max: 1 << 30, used: 1 << 30, grows: true, want: 10 * time.Millisecond},
		{max: 1 << 30, used: 1 << 30, cost: time.Second, want: 10 * time.Second},
	} {
		if got := v.wait(&volume{
			MaxBytes: c.max, used: usage{bytes: c.used},
			cost: c.cost, grows: c.grows,
		}); got != c.want {
			t.Errorf("%d of %d bytes, measured in %v: waits %v, want %v", c.used, c.max, c.cost,
				got, c.want)
		}
	}
	h := &Hold{found: map[*volume]foundUse{}}
	one := &volume{MaxBytes: 1 << 30}
	for i, c := range []struct {
		used int64
		full bool
	}{
		{2 << 30, false},
		{2<<30 + tidySlack, false},
		{2<<30 + tidySlack + 1, true},
		{1<<30 + 9, false},
		{1<<30 + 10 + tidySlack, true},
		{1 << 20, false},
		{1 << 30, false},
		{1<<30 + 1, true},
	} {
		one.used.bytes = c.used
		if got := v.full(one, h, false); got != c.full {
			t.Errorf("step %d, with %d bytes: full is %v", i, c.used, got)
		}
	}
	for _, c := range []struct{ max, used, most int64 }{
		{1 << 20, 0, 2 << 20},
		{1 << 30, 0, 1<<30 + 1<<27},
		{256 << 20, 0, 320 << 20},
	} {
		if v.excessive(&volume{MaxBytes: c.max, used: usage{bytes: c.most}}) ||
			!v.excessive(&volume{MaxBytes: c.max, used: usage{bytes: c.most + 1}}) {
			t.Errorf("of %d bytes the most is not %d", c.max, c.most)
		}
	}
}

// writer is a session that runs, and that reports which of its volumes become read-only.
type writer struct {
	hold   *Hold
	locked chan string
}

func (w writer) Hold() *Hold                    { return w.hold }
func (writer) Running() bool                    { return true }
func (writer) NotifyFull(string, string, int64) {}
func (writer) End(string)                       {}
func (w writer) LockVolume(name string) (bool, error) {
	w.locked <- name
	return true, nil
}

// TestSlowVolumesDoNotDelayOthers: while a volume with very many files is measured, another one that
// becomes full is made read-only. The session that finds the first one full does not lose it.
func TestSlowVolumesDoNotDelayOthers(t *testing.T) {
	slow := &volume{dir: "slow", Name: "slow", MaxBytes: 1 << 20}
	quick := &volume{dir: "quick", Name: "quick", MaxBytes: 1 << 20}
	found, known, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	know := sync.OnceFunc(func() { close(known) })
	var use atomic.Int64
	v := &Store{
		cfg:   Config{Every: time.Millisecond, Log: slog.New(slog.DiscardHandler)},
		begun: make(chan struct{}, 1),
		tree: func(path string) (usage, error) {
			if path == filepath.Join("slow", dataFolder) {
				<-found
				return usage{bytes: 8 << 20}, nil // other sessions have filled it
			}
			return usage{bytes: use.Add(1 << 18)}, nil
		},
	}
	w := writer{locked: make(chan string, 8), hold: &Hold{
		mounts: make([]protocol.Mount, 2), volumes: []*volume{slow, quick}, store: v,
		locked: map[*volume]bool{}, reported: map[*volume]bool{}, locking: map[*volume]bool{},
		found: map[*volume]foundUse{},
	}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		v.Watch(ctx, func() []Session {
			w.hold.mu.Lock()
			defer w.hold.mu.Unlock()
			if w.hold.found[slow].bytes == 8<<20 {
				know()
			}
			return []Session{w}
		})
	}()
	select {
	case name := <-w.locked:
		if name != "quick" {
			t.Errorf("%s became read-only", name)
		}
	case <-time.After(2 * time.Minute):
		t.Error("no volume became read-only while the slow one was measured")
	}
	close(found)
	select {
	case <-known:
	case <-time.After(2 * time.Minute):
	}
	cancel()
	<-done
	if got := w.hold.found[slow].bytes; got != 8<<20 || len(w.locked) > 0 || w.hold.locked[slow] {
		t.Errorf("the session has found %d bytes in the slow volume, and %d more were locked", got,
			len(w.locked))
	}
}

// blocked is a session whose sandbox does not let its volume become read-only until release.
type blocked struct {
	writer
	release chan struct{}
}

func (b blocked) LockVolume(string) (bool, error) {
	<-b.release
	return false, fault.New(fault.Conflict, "test", "files are open")
}

// TestBusySandboxDoesNotDelayOthers: while one sandbox is busy, the full volume of another session
// becomes read-only.
func TestBusySandboxDoesNotDelayOthers(t *testing.T) {
	var use atomic.Int64
	v := &Store{
		cfg:   Config{Every: time.Millisecond, Log: slog.New(slog.DiscardHandler)},
		begun: make(chan struct{}, 1),
		tree:  func(string) (usage, error) { return usage{bytes: use.Add(1 << 20)}, nil },
	}
	hold := func(name string) *Hold {
		return &Hold{
			mounts: make([]protocol.Mount, 1), store: v,
			volumes: []*volume{{dir: name, Name: name, MaxBytes: 8 << 20}},
			locked:  map[*volume]bool{}, reported: map[*volume]bool{},
			locking: map[*volume]bool{}, found: map[*volume]foundUse{},
		}
	}
	w := writer{locked: make(chan string, 8), hold: hold("free")}
	b := blocked{writer{hold: hold("busy")}, make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.Watch(ctx, func() []Session { return []Session{b, w} })
	}()
	select {
	case <-w.locked:
	case <-time.After(2 * time.Minute):
		t.Error("the volume of the other session did not become read-only")
	}
	close(b.release)
	cancel()
	<-done
}
