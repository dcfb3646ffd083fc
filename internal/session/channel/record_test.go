package channel

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// save saves a set, and returns its record as the next process reads it.
func (r *rig) save() snapshot.Record {
	r.t.Helper()
	var v, read snapshot.Record
	if err := r.Save(r.t.Context(), &v); err != nil {
		r.t.Fatal(err)
	}
	r.RecordWires(&v)
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return read
}

// TestSaveAndRestore: a restored set has the channels with their output, exits, terminals, writers,
// numbers and keys.
func TestSaveAndRestore(t *testing.T) {
	logs := newTestLogs(t)
	old := newRigWith(t, logs)
	done, shell, cat := old.open("process"), old.open("terminal"), old.open("process")
	old.keys["key"] = cat
	out := func(r *rig, c *Channel, text string) {
		r.Router().Output(c.wire.Load(), frame.Frame{Type: frame.Stdout, Body: []byte(text)})
	}
	out(old, done, "to the end")
	old.Router().Exit(done.wire.Load(), wire.Exit{Code: 4})
	out(old, shell, "\x1b]2;title\a\x1b[?1049h")
	v := old.attach(&fakeClient{}, protocol.Attach{Channel: cat.ID(), Writer: "w"})
	for n := range uint64(3) {
		if _, err := v.Write(Input{Sequence: n + 1, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	want := old.Views(false)
	record := old.save()

	r := newRigWith(t, logs)
	r.last = record.Numbers
	r.cfg.Router.next = record.NextWire
	if err := r.Restore(record); err != nil {
		t.Fatal(err)
	}
	if got := r.All()[2].View().State; got != "starting" {
		t.Errorf("before it is connected a channel is %s", got)
	}
	r.Connect(record)
	got := r.Views(false)
	have, _ := json.Marshal(got)
	if wanted, _ := json.Marshal(want); string(have) != string(wanted) {
		t.Errorf("the channels are\n%s, want\n%s", have, wanted)
	}
	if text := r.read(r.All()[0], frame.KindStdout); text != "to the end" {
		t.Errorf("the log has %q", text)
	}
	again, err := r.Find(cat.ID())
	if err != nil || r.keys["key"] != again {
		t.Errorf("the key belongs to %v, %v", r.keys["key"], err)
	}
	if n := r.NewWire(); n != record.NextWire || n <= cat.wire.Load() {
		t.Errorf("the next number on the wire is %d", n)
	}
	if c := r.open("process"); c.ID() != "p4" {
		t.Errorf("the next channel is %s, want p4", c.ID())
	}
	out(r, again, "more")
	if text := r.read(again, frame.KindStdout); text != "more" {
		t.Errorf("after the restore the log has %q", text)
	}
	s, err := r.All()[1].terminal.at(t.Context(), r.All()[1].log, r.All()[1].log.Bounds().End)
	if err != nil || !strings.Contains(string(s.Restore()), "\x1b[?1049h") {
		t.Errorf("the terminal's state is %q, %v", s.Restore(), err)
	}
	r.agent.Attach(again.wire.Load(), 0)
	w := r.attach(&fakeClient{}, protocol.Attach{Channel: again.ID(), Writer: "w"})
	if _, err := w.Write(Input{Sequence: 5, Data: []byte("x")}); err == nil {
		t.Error("input after a hole was accepted")
	}
	if _, err := w.Write(Input{Sequence: 4, Data: []byte("x")}); err != nil {
		t.Errorf("the writer does not continue: %v", err)
	}
}

// TestRecoveredWriters: in a session that was recovered from an earlier state, the next input of a
// writer may have any number, and the inputs after it may not.
func TestRecoveredWriters(t *testing.T) {
	logs := newTestLogs(t)
	old := newRigWith(t, logs)
	c := old.open("process")
	old.attach(&fakeClient{}, protocol.Attach{Channel: c.ID(), Writer: "known"})
	record := old.save()
	record.Recovered = time.Now()
	r := newRigWith(t, logs)
	if err := r.Restore(record); err != nil {
		t.Fatal(err)
	}
	r.Connect(record)
	r.agent.Attach(c.wire.Load(), 0)
	for _, name := range []string{"known", "unknown"} {
		v := r.attach(&fakeClient{}, protocol.Attach{Channel: c.ID(), Writer: name})
		if _, err := v.Write(Input{Sequence: 40, Data: []byte("x")}); err != nil {
			t.Errorf("%s: the first input: %v", name, err)
		}
		if _, err := v.Write(Input{Sequence: 50, Data: []byte("x")}); err == nil {
			t.Errorf("%s: input after a hole was accepted", name)
		}
	}
}

// TestDropLogs: a restored set that is not connected leaves no files.
func TestDropLogs(t *testing.T) {
	logs := newTestLogs(t)
	old := newRigWith(t, logs)
	old.open("process")
	record := old.save()
	r := newRigWith(t, logs)
	if err := r.Restore(record); err != nil {
		t.Fatal(err)
	}
	r.DropLogs()
	if exists(t, logs.Dir("s_test")) {
		t.Error("the folder of the logs is still there")
	}
}
