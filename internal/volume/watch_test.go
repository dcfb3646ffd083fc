package volume

import (
	"testing"
	"time"
)

// TestVolumeWait: a volume is measured before it can be full, a session that finds it
// full may remove files, and a session that writes far more ends.
func TestVolumeWait(t *testing.T) {
	v := &Store{cfg: Config{Every: 5 * time.Second}}
	for _, c := range []struct {
		max, used int64
		cost      time.Duration
		want      time.Duration
	}{
		{max: 100 << 30, want: 5 * time.Second},
		{max: 2 << 30, used: 1 << 30, want: time.Second},
		{max: 1 << 30, used: 1 << 30, want: 50 * time.Millisecond},
		{max: 1 << 30, used: 2 << 30, want: 50 * time.Millisecond},
		{max: 1 << 30, used: 1 << 30, cost: time.Second, want: 10 * time.Second},
	} {
		if got := v.wait(&volume{
			MaxBytes: c.max, used: usage{bytes: c.used},
			cost: c.cost,
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
		if got := v.full(one, h); got != c.full {
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
