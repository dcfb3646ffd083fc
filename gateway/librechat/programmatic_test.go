package librechat

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestProgramRequests: requests that name no program, or one that cannot be, are refused.
func TestProgramRequests(t *testing.T) {
	x := newFixture(t)
	tool := []any{map[string]any{"name": "a-b"}}
	token := strings.Repeat("a", 21) + ".2"
	for name, c := range map[string]struct {
		status int
		body   map[string]any
	}{
		"no tools":    {400, map[string]any{"code": "x"}},
		"no code":     {400, map[string]any{"tools": tool}},
		"no name":     {400, map[string]any{"code": "x", "tools": []any{map[string]any{}}}},
		"a language":  {400, map[string]any{"code": "x", "tools": tool, "lang": "js"}},
		"equal names": {400, map[string]any{"code": "x", "tools": append(tool, map[string]any{"name": "a b"})}},
		"a token":     {404, map[string]any{"continuation_token": "x"}},
		"an end":      {404, map[string]any{"continuation_token": token}},
		"a step":      {404, map[string]any{"continuation_token": token[:21] + ".99"}},
		"results": {413, map[string]any{
			"continuation_token": token, "tool_results": []any{map[string]any{
				"call_id": "call_1", "result": strings.Repeat("x", maxResults),
			}},
		}},
	} {
		text, _ := json.Marshal(c.body)
		w := x.send("ada", "POST", "/exec/programmatic", "application/json", bytes.NewReader(text))
		if w.Code != c.status || x.errorOf(w).Message == "" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if len(x.node.sessions) != 0 {
		t.Error("sessions stay: ", x.node.sessions)
	}
}

// TestSteps: one request makes a step of a program at a time, and a request can be cancelled by its
// user alone.
func TestSteps(t *testing.T) {
	x := newSteps()
	ctx, leave, err := x.track(context.Background(), "ada", "p", "r")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.track(context.Background(), "ada", "p", ""); !fault.Is(err, fault.Conflict) {
		t.Error("two requests for one program: ", err)
	}
	if _, other, err := x.track(context.Background(), "bob", "p", ""); err != nil {
		t.Error("another user's program: ", err)
	} else {
		other()
	}
	if x.cancel("bob", "r") || x.cancel("ada", "s") || ctx.Err() != nil {
		t.Error("another request cancels a step")
	}
	if !x.cancel("ada", "r") || context.Cause(ctx) != errCancelled {
		t.Error("a step is not cancelled: ", context.Cause(ctx))
	}
	leave()
	if x.cancel("ada", "r") || len(x.programs) != 0 || len(x.requests) != 0 {
		t.Errorf("a step stays: %+v", x)
	}
}

// TestCancelRequests: the cancellation of a request that has no program is no error.
func TestCancelRequests(t *testing.T) {
	x := newFixture(t)
	for body, status := range map[string]int{
		`{}`: http.StatusBadRequest, `{"request_id": "r"}`: http.StatusOK,
	} {
		w := x.send("ada", "POST", "/exec/programmatic/cancel", "application/json",
			strings.NewReader(body))
		if w.Code != status {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}
