package channel

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/protocol/frame"
)

func newTestLogs(t *testing.T) *Logs {
	t.Helper()
	return NewLogs(LogsConfig{
		Dir: t.TempDir(), Memory: 1 << 20,
		Logger: slog.New(slog.DiscardHandler),
	})
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	return err == nil
}

// TestLogs: a saved log has its content when it is opened again, a dropped log leaves no file, and
// the counters include both.
func TestLogs(t *testing.T) {
	x := newTestLogs(t)
	l, err := x.Create(admission.Holder{Tenant: "t"}, "s_a", "k1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(frame.KindStdout, 0, []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if s := x.Stats(); s.Records != 1 || s.MemoryBytes == 0 {
		t.Errorf("with one log: %+v", s)
	}
	end := l.Bounds().End
	saved, err := x.Save(l)
	if err != nil {
		t.Fatal(err)
	}
	if s := x.Stats(); s.Records != 1 || s.MemoryBytes != 0 {
		t.Errorf("after it was saved: %+v", s)
	}
	x.Drop(l) // closed already
	x.RemoveDir("s_a")
	if !exists(t, x.Dir("s_a")) {
		t.Fatal("the folder of a saved log was removed")
	}
	if l, err = x.Open(admission.Holder{Tenant: "t"}, "s_a", "k1", saved); err != nil {
		t.Fatal(err)
	}
	if got := l.Bounds().End; got != end {
		t.Errorf("the log ends at %d, want %d", got, end)
	}
	x.Drop(l)
	x.RemoveDir("s_a")
	if exists(t, x.Dir("s_a")) {
		t.Error("the folder of a dropped log is still there")
	}
}

// TestLogsSweep: folders of unknown sessions are removed, and at the end all folders but those with
// saved logs.
func TestLogsSweep(t *testing.T) {
	x := newTestLogs(t)
	for _, id := range []string{"s_known", "s_unknown"} {
		if err := os.MkdirAll(filepath.Join(x.Dir(id), "k1"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Sweep(func(id string) bool { return id == "s_known" }); err != nil {
		t.Fatal(err)
	}
	if !exists(t, x.Dir("s_known")) || exists(t, x.Dir("s_unknown")) {
		t.Error("the sweep removed the wrong folder")
	}
	if _, err := x.Create(admission.Holder{Tenant: "t"}, "s_open", "k1"); err != nil {
		t.Fatal(err)
	}
	x.Close()
	if !exists(t, x.Dir("s_known")) || exists(t, x.Dir("s_open")) {
		t.Error("the end removed the wrong folder")
	}
}
