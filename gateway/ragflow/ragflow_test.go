package ragflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/oneshot/oneshottest"
	"github.com/sandgate/sandgate/gateway/surface/surfacetest"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// send sends a request of a run and returns the status and the body.
func send(p *oneshottest.Programs, body string, header ...string) (int, string) {
	s := New(Config{
		Keys: surfacetest.Keys{}, Programs: p, Settings: surfaces.Defaults(surfaces.RAGFlow),
	})
	return surfacetest.Send(s, "POST", Prefix+"/run", body, header...)
}

// TestEnds checks the answer to each end of a program.
func TestEnds(t *testing.T) {
	type outcome = oneshot.Outcome
	for name, x := range map[string]struct {
		outcome oneshot.Outcome
		want    string
	}{
		"a value": {
			outcome{Status: oneshot.OK, Stdout: "o", Value: []byte("[1]"), MemoryKB: 7},
			"success|o||0||| 7 [1]",
		},
		"no value": {outcome{Status: oneshot.OK}, "success|||0||| 0 <nil>"},
		"an error": {
			outcome{
				Status: oneshot.Failed, Stdout: "o", Stderr: "t", Traceback: "t", ExitCode: 1,
				Message: "m",
			},
			"program_error||t|1||nonzero_exit| 0 <nil>",
		},
		"an exit": {
			outcome{Status: oneshot.Failed, Stderr: "e", Message: "status 3", ExitCode: 3},
			"program_error||e\nstatus 3|3||nonzero_exit| 0 <nil>",
		},
		"a time-out": {
			outcome{Status: oneshot.TimedOut, Message: "late", ExitCode: 124},
			"resource_limit_exceeded||late|-124|time|| 0 <nil>",
		},
		"memory": {
			outcome{Status: oneshot.Killed, Message: "ran out of memory", ExitCode: 137},
			"resource_limit_exceeded||ran out of memory|-137|memory|| 0 <nil>",
		},
		"memory of Python": {
			outcome{Status: oneshot.Failed, Name: "MemoryError", Stderr: "t", ExitCode: 1},
			"resource_limit_exceeded||t\n|1|memory|| 0 <nil>",
		},
		"a kill": {
			outcome{Status: oneshot.Killed, Message: "SIGKILL", ExitCode: 137},
			"runtime_error||SIGKILL|137||signalled| 0 <nil>",
		},
		"too much output": {
			outcome{Status: oneshot.Flooded, Stdout: "o", Message: "big", ExitCode: 1},
			"resource_limit_exceeded||big|1|output|| 0 <nil>",
		},
	} {
		p := &oneshottest.Programs{Outcome: x.outcome}
		status, body := send(p, `{"code_b64":"eA=="}`, "X-Sandbox-Token", "acme")
		var a answer
		if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 {
			t.Fatalf("%s: %d %s", name, status, body)
		}
		text := func(s *string) string {
			if s == nil {
				return ""
			}
			return *s
		}
		memory, value := int64(0), any(nil)
		if a.MemoryKB != nil {
			memory = *a.MemoryKB
		}
		if a.Result != nil {
			value = string(a.Result.Value)
		}
		got := fmt.Sprintf("%s|%s|%s|%d|%s|%s|%s %d %v", a.Status, a.Stdout, a.Stderr, a.ExitCode,
			text(a.Limit), text(a.Failure), text(a.Denied), memory, value)
		if got != x.want || a.Artifacts == nil {
			t.Errorf("%s: %s, want %s", name, got, x.want)
		}
	}
}

// TestRequests checks the programs of requests, and the requests that are refused.
func TestRequests(t *testing.T) {
	p := &oneshottest.Programs{Outcome: oneshot.Outcome{Status: oneshot.OK}}
	status, body := send(p, `{"code_b64":"eA==","language":"nodejs","arguments":null,"more":1}`,
		"Authorization", "Bearer acme")
	if q := p.Last; status != 200 || q.Language != oneshot.JavaScript || q.Code != "x" ||
		string(q.Call.Arguments) != "{}" || q.Who.Tenant != "acme" || q.Offline {
		t.Errorf("%d %s %+v", status, body, q)
	}
	status, _ = send(p, `{"code_b64":"eA==","arguments":{"a":[1]}}`, "X-Sandbox-Token", "acme")
	if q := p.Last; status != 200 || q.Language != oneshot.Python || q.Call.Module != "main" ||
		string(q.Call.Arguments) != `{"a":[1]}` {
		t.Errorf("%d %+v", status, q)
	}
	for body, want := range map[string]string{
		`{"code_b64":"!"}`:                    "code_b64",
		`{"code_b64":""}`:                     "code_b64",
		`{"code_b64":"eA==","language":"go"}`: "language",
		`{"code_b64":"eA==","arguments":[1]}`: "arguments",
		`code`:                                "JSON",
	} {
		status, text := send(p, body, "X-Sandbox-Token", "acme")
		if status != 422 || !strings.Contains(text, want) || !strings.HasPrefix(text, `{"detail":"`) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for want, err := range map[int]error{
		429: fault.New(fault.Exhausted, "x", "full"), 503: fault.New(fault.Unavailable, "x", "down"),
		413: fault.New(fault.TooLarge, "x", "big"),
	} {
		p := &oneshottest.Programs{Err: err}
		if status, text := send(p, `{"code_b64":"eA=="}`, "X-Sandbox-Token", "a"); status != want {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
	if status, _ := send(p, `{}`); status != 401 {
		t.Errorf("without a key: %d", status)
	}
}

// TestArtifacts checks which files are artifacts.
func TestArtifacts(t *testing.T) {
	choose := chooser()
	for _, x := range []struct {
		path string
		size int64
		want bool
	}{
		{home + "/a.PNG", 1, true},
		{artifacts + "/b.csv", 1, true},
		{artifacts + "/a.PNG", 1, false}, // its name is taken
		{home + "/empty.png", 0, false},
		{home + "/big.png", maxArtifact + 1, false},
		{home + "/.hidden.png", 1, false},
		{home + "/notes.txt", 1, false},
		{home + "/deep/c.png", 1, false},
		{"/tmp/d.png", 1, false},
	} {
		if got := choose(protocol.CreatedFile{Path: x.path, Size: x.size}); got != x.want {
			t.Errorf("%s with %d bytes: %v", x.path, x.size, got)
		}
	}
	n := 2
	for i := range 20 {
		if choose(protocol.CreatedFile{Path: fmt.Sprintf("%s/%d.json", home, i), Size: 1}) {
			n++
		}
	}
	if n != maxArtifacts {
		t.Errorf("%d artifacts", n)
	}
	all := artifactsOf([]protocol.CreatedFile{
		{Path: home + "/a.png", Size: 3, Content: "YWJj"}, {Path: home + "/b.png", Omitted: true},
	})
	if len(all) != 1 || all[0] != (artifact{"a.png", "image/png", 3, "YWJj"}) {
		t.Errorf("%+v", all)
	}
}
