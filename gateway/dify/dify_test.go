package dify

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/oneshot/oneshottest"
	"github.com/sandgate/sandgate/gateway/surface/surfacetest"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol/fault"
)

// send sends a request and returns the status and the body.
func send(p *oneshottest.Programs, method, path, body string, header ...string) (int, string) {
	s := New(Config{
		Keys: surfacetest.Keys{}, Programs: p, Settings: surfaces.Defaults(surfaces.Dify),
	})
	return surfacetest.Send(s, method, Prefix+path, body, header...)
}

const pathRun = "/v1/sandbox/run"

// TestAnswers checks the answer to each end of a program. Dify fails a node for any error text.
func TestAnswers(t *testing.T) {
	for name, x := range map[string]struct {
		outcome oneshot.Outcome
		want    result
	}{
		"success with warnings": {
			oneshot.Outcome{Status: oneshot.OK, Stdout: "1\n", Stderr: "warning"},
			result{Stdout: "1\n", Stderr: "warning"},
		},
		"an error": {
			oneshot.Outcome{
				Status: oneshot.Failed, Stderr: "w\nTraceback", Traceback: "Traceback", ExitCode: 1,
			},
			result{Stderr: "w\nTraceback", Error: "Traceback", ExitCode: 1},
		},
		"an exit": {
			oneshot.Outcome{Status: oneshot.Failed, Message: "status 3", Stderr: "no", ExitCode: 3},
			result{Stderr: "no", Error: "status 3\nno", ExitCode: 3},
		},
		"a time-out": {
			oneshot.Outcome{Status: oneshot.TimedOut, Message: "too long", ExitCode: 124},
			result{Error: "too long", ExitCode: 124},
		},
	} {
		p := &oneshottest.Programs{Outcome: x.outcome}
		status, body := send(p, "POST", pathRun, `{"language":"python3","code":"x","preload":"y"}`,
			"X-Api-Key", "acme")
		var got struct {
			Code    int
			Message string
			Data    result
		}
		err := json.Unmarshal([]byte(body), &got)
		if err != nil || status != 200 || got.Code != 0 || got.Message != "success" ||
			got.Data != x.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if p.Last.Who.Tenant != "acme" || p.Last.Code != "x" || !p.Last.Offline ||
			p.Last.Language != oneshot.Python {
			t.Errorf("%+v", p.Last)
		}
	}
}

// TestRequests checks the codes and the statuses of refused requests.
func TestRequests(t *testing.T) {
	const good = `{"language":"nodejs","code":"x"}`
	quota := &fault.Error{Kind: fault.Exhausted, Op: "x", Field: "quota.sessions", Message: "quota"}
	for name, x := range map[string]struct {
		body   string
		err    error
		status int
		want   string
	}{
		"no language":        {`{"code":"x"}`, nil, 200, `"code":-400`},
		"no code":            {`{"language":"python3"}`, nil, 200, `"code":-400`},
		"no JSON":            {`code`, nil, 200, `"code":-400`},
		"another language":   {`{"language":"ruby","code":"x"}`, nil, 400, `"code":-400`},
		"a quota":            {good, quota, 200, `"code":-429`},
		"no place":           {good, fault.New(fault.Exhausted, "x", "full"), 503, `"code":-503`},
		"no node":            {good, fault.New(fault.Unavailable, "x", "down"), 503, `"code":-503`},
		"an internal error":  {good, fault.New(fault.Internal, "x", "secret"), 200, `"code":-500`},
		"too large a result": {good, fault.New(fault.TooLarge, "x", "big"), 200, `"code":-400`},
	} {
		p := &oneshottest.Programs{Err: x.err}
		status, body := send(p, "POST", pathRun, x.body, "X-Api-Key", "acme")
		if status != x.status || !strings.Contains(body, x.want) || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	flooded := &oneshottest.Programs{Outcome: oneshot.Outcome{Status: oneshot.Flooded, Message: "1 byte"}}
	if _, body := send(flooded, "POST", pathRun, good, "X-Api-Key", "acme"); !strings.Contains(body,
		`"code":-400`) {
		t.Errorf("cut output: %s", body)
	}
}

// TestCredentials checks each form of a key, and the routes without one.
func TestCredentials(t *testing.T) {
	const body = `{"language":"python3","code":"x","enable_network":true}`
	for name, x := range map[string]struct {
		header []string
		status int
	}{
		"a header": {[]string{"X-Api-Key", "acme"}, 200},
		"a bearer": {[]string{"Authorization", "Bearer acme"}, 200},
		"Basic":    {[]string{"Authorization", "Basic eDphY21l"}, 200}, // x:acme
		"none":     {nil, 401},
		"wrong":    {[]string{"X-Api-Key", "wrong"}, 401},
	} {
		p := &oneshottest.Programs{Outcome: oneshot.Outcome{Status: oneshot.OK}}
		status, text := send(p, "POST", pathRun, body, x.header...)
		if status != x.status || status == 401 && !strings.Contains(text, `"code":-401`) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if status == 200 && (p.Last.Who.Tenant != "acme" || p.Last.Offline) {
			t.Errorf("%s: %+v", name, p.Last)
		}
	}
	p := new(oneshottest.Programs)
	if status, text := send(p, "GET", "/health", ""); status != http.StatusOK || text != `"ok"` {
		t.Errorf("health: %d %s", status, text)
	}
	status, text := send(p, "GET", "/v1/sandbox/dependencies?language=python3", "", "X-Api-Key", "a")
	if status != 200 || !strings.Contains(text,
		`"data":{"dependencies":[{"name":"numpy","version":"2.0"},`) {
		t.Errorf("dependencies: %d %s", status, text)
	}
}
