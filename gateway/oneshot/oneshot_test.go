package oneshot

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestRequest checks the cell and the sandbox of programs.
func TestRequest(t *testing.T) {
	p := Program{
		Surface: "x", Language: Python, Code: "print('é')", MaxOutput: 7, MaxFiles: 8, Offline: true,
		Settings: surfaces.Settings{
			Template: "t", Network: []string{"example.com"}, Memory: 9, Timeout: time.Second,
			Labels: map[string]string{"team": "a", "surface": "y"},
		},
		Call: &Call{Arguments: []byte(`{"a":1}`), Module: "main", Helpers: "h"},
	}
	q, err := p.request()
	if err != nil || q.Template != "t" || q.Limits.MemoryBytes != 9 || q.Network != nil ||
		q.TimeoutMS != 1000 || q.MaxOutputBytes != 7 || q.MaxFileBytes != 8 ||
		q.Labels["surface"] != "x" || q.Labels["team"] != "a" || len(q.Files) != 0 {
		t.Errorf("%+v %v", q, err)
	}
	text := regexp.MustCompile(`b64decode\('(.+)'\)`).FindStringSubmatch(q.Code)
	if text == nil {
		t.Fatal(q.Code)
	}
	raw, err := base64.StdEncoding.DecodeString(text[1])
	var w wrapped
	if err != nil || json.Unmarshal(raw, &w) != nil || w.Code != p.Code || !w.Call ||
		string(w.Arguments) != `{"a":1}` || w.Module != "main" || w.File != "main.py" {
		t.Errorf("%s", raw)
	}
	p.Offline, p.Call, p.Language = false, nil, JavaScript
	p.Settings.Timeout = 0
	p.Code = strings.Repeat("x", maxInline)
	q, err = p.request()
	if err != nil || q.Network == nil || q.TimeoutMS != 600_000 || len(q.Files) != 1 ||
		!strings.Contains(q.Code, "readFileSync('"+q.Files[0].Path) ||
		len(q.Code) > protocol.MaxCode ||
		json.Unmarshal([]byte(q.Files[0].Content), &w) != nil || w.Code != p.Code {
		t.Errorf("a large program: %v", err)
	}
	p.Code = strings.Repeat("x", MaxCode)
	if _, err = p.request(); !fault.Is(err, fault.TooLarge) {
		t.Errorf("too large a program: %v", err)
	}
	p.Code, p.Call = "x", &Call{Arguments: []byte("{")}
	if _, err = p.request(); fault.PublicOf(err).Field != "arguments" {
		t.Errorf("arguments: %v", err)
	}
}

// shown is a display with the outcome that a wrapper sends.
func shown(text string) []protocol.RunEvent {
	return []protocol.RunEvent{{
		Type: "display", Data: map[string]json.RawMessage{mimeOutcome: json.RawMessage(text)},
	}}
}

// TestOutcomes checks the outcome of each end of a run.
func TestOutcomes(t *testing.T) {
	code := 3
	for name, x := range map[string]struct {
		run  protocol.RunResult
		want Outcome
	}{
		"a value": {
			protocol.RunResult{
				Status: "ok", Stdout: "o", Results: shown(`{"value":"[1]","memory_kb":9}`),
			},
			Outcome{Status: OK, Stdout: "o", Value: []byte("[1]"), MemoryKB: 9},
		},
		"a value that is no JSON": {
			protocol.RunResult{Status: "ok", Results: shown(`{"value":"["}`)}, Outcome{Status: OK},
		},
		"an error": {
			protocol.RunResult{
				Status:  "ok",
				Results: shown(`{"error":{"name":"E","message":"m","traceback":"t"}}`),
			},
			Outcome{Status: Failed, Name: "E", Message: "m", Traceback: "t", ExitCode: 1},
		},
		"an error outside the wrapper": {
			protocol.RunResult{Status: "error", Results: shown(`{}`), Error: &protocol.RunEvent{
				EName: "E", EValue: "m", Traceback: []string{"\x1b[31ma\x1b[0m", "b"},
			}},
			Outcome{Status: Failed, Name: "E", Message: "m", Traceback: "a\nb", ExitCode: 1},
		},
		"an exit": {
			protocol.RunResult{
				Status: "error", ExitCode: &code, Error: &protocol.RunEvent{EName: "SystemExit"},
			},
			Outcome{Status: Failed, Message: "the program exited with the status 3", ExitCode: 3},
		},
		"a time-out": {
			protocol.RunResult{Status: "timeout", Error: &protocol.RunEvent{EName: "X"}},
			Outcome{Status: TimedOut, Message: "the program ran for over 2s", ExitCode: 124},
		},
		"a kernel that died": {
			protocol.RunResult{
				Status: "error", Error: &protocol.RunEvent{EName: "KernelDied", EValue: "memory; gone"},
			},
			Outcome{Status: Killed, Message: "memory", ExitCode: 137},
		},
		"a lost sandbox": {
			protocol.RunResult{Status: "lost", Fault: &fault.Public{Kind: fault.SandboxLost}},
			Outcome{
				Status:   Killed,
				Message:  "the sandbox of the program ended: memory or another limit was reached",
				ExitCode: 137,
			},
		},
		"too much output": {
			protocol.RunResult{Status: "ok", TruncatedBytes: 5, Results: shown(`{"value":"1"}`)},
			Outcome{
				Status: Flooded, Message: "5 bytes of output were over the limit", ExitCode: 1,
				Dropped: 5,
			},
		},
	} {
		got, err := outcomeOf(x.run, 2*time.Second)
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(x.want)
		if err != nil || string(a) != string(b) {
			t.Errorf("%s: %s, want %s (%v)", name, a, b, err)
		}
	}
	_, err := outcomeOf(protocol.RunResult{
		Status: "failed", Fault: &fault.Public{Kind: fault.Restarting},
	}, time.Second)
	if !fault.Is(err, fault.Restarting) {
		t.Errorf("a failed run: %v", err)
	}
}
