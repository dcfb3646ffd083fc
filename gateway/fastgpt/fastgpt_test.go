package fastgpt

import (
	"strings"
	"testing"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/oneshot/oneshottest"
	"github.com/sandgate/sandgate/gateway/surface/surfacetest"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol/fault"
)

// send sends a request and returns the status and the body.
func send(p *oneshottest.Programs, method, path, body, key string) (int, string) {
	s := New(Config{
		Keys: surfacetest.Keys{}, Programs: p, Settings: surfaces.Defaults(surfaces.FastGPT),
	})
	return surfacetest.Send(s, method, Prefix+path, body, "Authorization", "Bearer "+key)
}

// TestAnswersOfNodes checks the answer to each end of a program.
func TestAnswersOfNodes(t *testing.T) {
	for name, x := range map[string]struct {
		outcome oneshot.Outcome
		want    string
	}{
		"a value": {
			oneshot.Outcome{Status: oneshot.OK, Stdout: "a\nb\n", Value: []byte(`{"x":1}`)},
			`{"success":true,"data":{"codeReturn":{"x":1},"log":"a\nb"}}`,
		},
		"nothing": {
			oneshot.Outcome{Status: oneshot.OK, Value: []byte("null")},
			`{"success":true,"data":{"codeReturn":null,"log":""}}`,
		},
		"an early exit": {
			oneshot.Outcome{Status: oneshot.OK},
			`{"success":false,"message":"the program has ended before main returned"}`,
		},
		"an error": {
			oneshot.Outcome{Status: oneshot.Failed, Name: "E", Message: "m", Traceback: "t"},
			`{"success":false,"message":"m"}`,
		},
		"an error without a text": {
			oneshot.Outcome{Status: oneshot.Failed, Name: "AssertionError"},
			`{"success":false,"message":"AssertionError"}`,
		},
		"a time-out": {
			oneshot.Outcome{Status: oneshot.TimedOut, Message: "late"},
			`{"success":false,"message":"late"}`,
		},
	} {
		p := &oneshottest.Programs{Outcome: x.outcome}
		status, body := send(p, "POST", "/sandbox/python", `{"code":"c"}`, "acme")
		if status != 200 || body != x.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestNodes checks the programs of requests, and the requests that are refused.
func TestNodes(t *testing.T) {
	p := &oneshottest.Programs{Outcome: oneshot.Outcome{Status: oneshot.OK, Value: []byte("1")}}
	for path, language := range map[string]string{"js": oneshot.JavaScript, "python": oneshot.Python} {
		status, _ := send(p, "POST", "/sandbox/"+path,
			`{"code":"c","variables":{"a":1},"queueId":"q"}`, "acme")
		if q := p.Last; status != 200 || q.Language != language || q.Code != "c" ||
			string(q.Call.Arguments) != `{"a":1}` || q.Who.Tenant != "acme" || q.Offline ||
			!strings.Contains(q.Call.Helpers, "SystemHelper") {
			t.Errorf("%s: %d %+v", path, status, q)
		}
	}
	for body, want := range map[string]string{
		`{"code":""}`: "code", `{"code":"c","variables":[1]}`: "variables", `x`: "JSON",
	} {
		status, text := send(p, "POST", "/sandbox/js", body, "acme")
		if status != 400 || !strings.HasPrefix(text, `{"success":false,"message":"`) ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for want, err := range map[int]error{
		429: fault.New(fault.Exhausted, "x", "full"), 503: fault.New(fault.Unavailable, "x", "down"),
		413: fault.New(fault.TooLarge, "x", "big"),
	} {
		p := &oneshottest.Programs{Err: err}
		if status, text := send(p, "POST", "/sandbox/js", `{"code":"c"}`, "a"); status != want {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
	if status, text := send(p, "GET", "/sandbox/modules", "", "wrong"); status != 401 ||
		!strings.Contains(text, `"success":false`) {
		t.Errorf("a wrong key: %d %s", status, text)
	}
	status, text := send(p, "GET", "/sandbox/modules", "", "acme")
	if status != 200 || !strings.Contains(text, `"python":["PIL","numpy"],"builtinGlobals":[`) {
		t.Errorf("modules: %d %s", status, text)
	}
}
