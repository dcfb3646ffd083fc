package execd

import (
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestCommandEvents: a command ends with execution_complete, or with its exit status as an error.
func TestCommandEvents(t *testing.T) {
	code := func(n int) *int { return &n }
	type end = protocol.ExecEvent
	for _, x := range []struct {
		e           end
		kind, value string
	}{
		{end{Type: "done", Status: "ok", ExitCode: code(0)}, "execution_complete", ""},
		{end{Type: "done", Status: "error", ExitCode: code(3)}, "error", "3"},
		{end{Type: "done", Status: "timeout", ExitCode: code(1)}, "error", "timeout"},
		{end{Type: "done", Status: "lost"}, "error", "lost"},
		{end{Type: "start", Channel: "p1"}, "init", ""},
	} {
		all := commandEvents(x.e)
		if len(all) != 1 || all[0].Type != x.kind ||
			x.value != "" && all[0].Error.Value != x.value {
			t.Errorf("%+v is %+v", x.e, all)
		}
	}
	if all := commandEvents(protocol.ExecEvent{Type: "files"}); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// TestCodeEvents: code that raises has its error once, and ends complete. Code that the server
// ends has an error with the reason.
func TestCodeEvents(t *testing.T) {
	done := func(status string) protocol.RunEvent {
		return protocol.RunEvent{Type: "done", Status: status, Count: 2}
	}
	for _, x := range []struct {
		e      protocol.RunEvent
		failed bool
		last   string
	}{
		{done("ok"), false, "execution_complete"},
		{done("error"), true, "execution_complete"},
		{done("timeout"), false, "error"},
		{done("lost"), true, "error"},
	} {
		all := codeEvents(x.e, "", x.failed)
		if len(all) != 2 || all[0].Count != 2 || all[1].Type != x.last {
			t.Errorf("%+v is %+v", x.e, all)
		}
	}
	e := protocol.RunEvent{Type: "result", Data: map[string]json.RawMessage{
		"text/plain": json.RawMessage(`"42"`), "image/png": json.RawMessage(`"aa"`),
	}}
	if all := codeEvents(e, "", false); len(all[0].Results) != 3 {
		t.Errorf("%+v", all)
	}
	if all := codeEvents(protocol.RunEvent{Type: "start", Channel: "k1"}, "c-1", false); all[0].Text !=
		"c-1" {
		t.Errorf("%+v", all)
	}
}

// TestOctal reads modes whose octal digits are decimal numbers.
func TestOctal(t *testing.T) {
	for mode, want := range map[int]uint32{0: 0o755, 644: 0o644, 7777: 0o7777} {
		if got, err := (permission{Mode: mode}).octal(0o755); err != nil || got != want {
			t.Errorf("%d is %o %v", mode, got, err)
		}
	}
	for _, mode := range []int{888, -1, 77777} {
		if _, err := (permission{Mode: mode}).octal(0); err == nil {
			t.Errorf("%d is a mode", mode)
		}
	}
}

// TestByteRange reads ranges with a start.
func TestByteRange(t *testing.T) {
	for text, want := range map[string][2]int64{"bytes=2-": {2, -1}, "bytes=0-4": {0, 4}} {
		if from, to, ok := byteRange(text); !ok || from != want[0] || to != want[1] {
			t.Errorf("%s: %d %d %v", text, from, to, ok)
		}
	}
	for _, text := range []string{"", "bytes=-5", "bytes=a-b", "bytes=1-2,3-4", "bytes=1"} {
		if _, _, ok := byteRange(text); ok {
			t.Errorf("%q is a range", text)
		}
	}
}
