package session

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// spoil changes a byte in the middle of a file.
func spoil(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0xff
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestGVisorDamaged changes files of hibernated sessions on the disk. A session with changed memory
// does not continue with it, and one with a changed record is lost, not unknown.
func TestGVisorDamaged(t *testing.T) {
	data := t.TempDir()
	r := newGVisor(t, data)
	isLost := func(what, id string, reasons ...string) {
		t.Helper()
		v := must[protocol.Session](r, protocol.OpSessionGet, protocol.SessionRef{Session: id})
		if v.State != lost.String() || !slices.Contains(reasons, v.Reason) {
			t.Errorf("%s: %+v", what, v)
		}
	}
	memory, record, untouched := r.create(), r.create(), r.create()
	p := r.open()
	p.attach(1, memory.ID, "k1")
	p.run(1, "x = list(range(100_000))")
	must[protocol.Session](r, protocol.OpHibernate, protocol.SessionRef{Session: memory.ID})
	spoil(t, filepath.Join(r.m.dirs.Snapshot(memory.ID), "pages.img"))
	err := p.ask(protocol.OpExecute, 1, protocol.Execute{Code: "sum(x)"}, nil)
	if err != nil {
		wantKind(t, "work with changed memory", err, fault.SandboxLost, "")
	}
	// On a slow disk the sandbox runs before the end of the check, which then ends it.
	eventually(t, "the end of a session with changed memory", func() bool {
		return must[protocol.Session](r, protocol.OpSessionGet,
			protocol.SessionRef{Session: memory.ID}).State == lost.String()
	})
	isLost("changed memory", memory.ID, "host", "crashed")

	r.stop()
	spoil(t, filepath.Join(data, "sessions", record.ID, "session.json"))
	r = newGVisor(t, data)
	isLost("a changed record", record.ID, "host")
	if _, err := os.Stat(r.m.dirs.Session(record.ID)); err == nil {
		t.Error("the lost session has files")
	}
	p = r.open()
	p.attach(1, untouched.ID, "k1")
	if text, _ := p.run(1, "print(6 * 7)"); text != "42\n" {
		t.Errorf("the other session prints %q", text)
	}
}
