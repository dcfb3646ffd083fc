package migrate

import (
	"slices"
	"testing"
	"time"
)

// TestResumeWorking checks that a start resumes the sessions in which code ran, the most recently
// used first. An adopted session is resumed if code ran in it.
func TestResumeWorking(t *testing.T) {
	c := newTestCluster(t)
	a, b := c.start("a"), c.start("b")
	now := time.Now()
	for i, works := range []bool{true, false, true} {
		s := a.create([]string{"s_0", "s_1", "s_2"}[i], "v", false)
		s.record.Works, s.record.Active = works, now.Add(time.Duration(i)*time.Second)
	}
	a.ResumeWorking()
	if want := []string{"s_2", "s_0"}; !slices.Equal(a.resumed, want) {
		t.Errorf("resumed %v, want %v", a.resumed, want)
	}
	if d, err := a.Drain(t.Context()); err != nil || d.Parked != 3 {
		t.Fatalf("%+v %v", d, err)
	}
	for _, id := range []string{"s_0", "s_1"} {
		must(t, b.adoptIt(id))
	}
	if want := []string{"s_0"}; !slices.Equal(b.resumed, want) {
		t.Errorf("resumed after the adoption: %v, want %v", b.resumed, want)
	}
}
