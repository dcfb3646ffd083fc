package survey

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/edition"
)

// carrier leaves some sessions.
type carrier struct {
	left   int
	urgent bool
	ends   func(string) bool
	until  time.Time
}

func (c *carrier) Carry(ctx context.Context, ends func(string) bool, urgent bool) (left int) {
	c.until, _ = ctx.Deadline()
	c.ends, c.urgent = ends, urgent
	return c.left
}

// TestCarryBeforeRemoval carries sessions over before their edition is removed.
func TestCarryBeforeRemoval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(text string, window time.Duration) *edition.Store {
		t.Helper()
		runsc, image := filepath.Join(dir, "runsc"), filepath.Join(dir, "image.erofs")
		for _, name := range []string{runsc, image} {
			if err := os.WriteFile(name+"~", append([]byte(text), make([]byte, 8<<10)...),
				0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(name+"~", name); err != nil {
				t.Fatal(err)
			}
		}
		s, err := edition.Open(runsc, image, edition.Options{
			Dir: filepath.Join(dir, "store"), Window: window, Keep: 3, Carry: CarryTime,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	c := &carrier{left: 1}
	e := &Survey{Store: open("one", time.Hour), Carrier: c, Log: slog.New(slog.DiscardHandler)}
	first := e.Store.Current()
	e.Store = open("two", time.Hour)
	if e.carry(t.Context()) || c.ends != nil {
		t.Error("within the window nothing is carried over")
	}
	e.Store = open("two", time.Nanosecond)
	if !e.carry(t.Context()) || !c.ends(first.String()) || c.ends(e.Store.Current().String()) ||
		c.urgent || time.Until(c.until) > CarryTime {
		t.Errorf("at the end of the window: %+v", c)
	}
	if err := e.Store.Survey([]string{first.String()}, true); err != nil ||
		len(e.Store.List()) != 2 {
		t.Errorf("%v %v", e.Store.List(), err)
	}
	c.left = 0
	if err := e.Store.Survey([]string{first.String()}, e.carry(t.Context())); err != nil ||
		len(e.Store.List()) != 1 {
		t.Errorf("%v %v", e.Store.List(), err)
	}
}

// TestEvery looks more often while the window is short.
func TestEvery(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, time.Second: 10 * time.Second, time.Minute: 15 * time.Second,
		7 * 24 * time.Hour: time.Minute,
	} {
		if got := (&Survey{Window: window}).every(); got != want {
			t.Errorf("with a window of %s: %s, want %s", window, got, want)
		}
	}
}
