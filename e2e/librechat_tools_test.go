package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// libreChatStep is the answer to a step of a program that calls tools.
type libreChatStep struct {
	libreChatRun
	Token string `json:"continuation_token"`
	Calls []struct {
		ID, Name string
		Input    map[string]any
	} `json:"tool_calls"`
	Partial string `json:"partial_stdout"`
	Status  string
	Error   string
}

// step makes a step of a program and returns the status of the response.
func (c *libreChat) step(body map[string]any) (a libreChatStep, status int) {
	c.t.Helper()
	text, _ := json.Marshal(body)
	status, _, answer := c.do("POST", "exec/programmatic", "application/json",
		bytes.NewReader(text))
	if err := json.Unmarshal(answer, &a); err != nil {
		c.t.Fatalf("status %d: %s", status, answer)
	}
	return a, status
}

// program starts a program with the tools get-weather and class.
func (c *libreChat) program(lang, code string, more map[string]any) libreChatStep {
	c.t.Helper()
	body := map[string]any{
		"lang": lang, "code": code,
		"tools": []any{
			map[string]any{"name": "get-weather", "parameters": map[string]any{"type": "object"}},
			map[string]any{"name": "class"},
		},
	}
	for key, value := range more {
		body[key] = value
	}
	a, status := c.step(body)
	if status != 200 {
		c.t.Fatalf("status %d: %+v", status, a)
	}
	return a
}

// answer gives the calls of a step their results: the city, and temperatures.
func (c *libreChat) answer(a libreChatStep) (libreChatStep, int) {
	c.t.Helper()
	var results []any
	for _, call := range a.Calls {
		r := map[string]any{"call_id": call.ID, "is_error": false}
		if call.Input["city"] == "Nowhere" {
			r["is_error"], r["error_message"] = true, "no such city"
		} else {
			r["result"] = map[string]any{"city": call.Input["city"], "tool": call.Name}
		}
		results = append(results, r)
	}
	return c.step(map[string]any{"continuation_token": a.Token, "tool_results": results})
}

// TestLibreChatTools runs programs that call tools of LibreChat.
func TestLibreChatTools(t *testing.T) {
	ctx := deadline(t)
	ada, bob := libreChatUser(t, ctx, "ada"), libreChatUser(t, ctx, "bob")
	t.Run("python", func(t *testing.T) { libreChatPython(t, ada, bob) })
	t.Run("bash", func(t *testing.T) {
		a := ada.program("bash", `
echo begin
get_weather '{"city": "Rome"}' >rome.json &
x=$(get_weather '{"city": "Oslo"}'); wait
jq -r .city rome.json; echo "$x"
get_weather '{"city": "Nowhere"}' || echo failed`, nil)
		if a.Status != "tool_call_required" || a.Partial != "begin\n" {
			t.Fatalf("%+v", a)
		}
		for a.Status == "tool_call_required" { // how many calls come at once depends on the machine
			a, _ = ada.answer(a)
		}
		want := "begin\nRome\n{\"city\":\"Oslo\",\"tool\":\"get-weather\"}\nfailed\n"
		if a.Status != "completed" || a.Stdout != want ||
			a.Stderr != "get_weather: no such city\n" || a.file(t, "rome.json").ID == "" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("hibernated", func(t *testing.T) { libreChatHibernated(t, ctx) })
	t.Run("ends", func(t *testing.T) { libreChatEnds(t, ada) })
}

// libreChatPython runs a program with several calls at once, files, and a failed call.
func libreChatPython(t *testing.T, ada, bob *libreChat) {
	a := ada.program("python", `
print("begin", open("in.txt").read())
a, b = await asyncio.gather(get_weather(city="Rome"), class_tool(city="Oslo"))
print(a["city"], b["tool"])
open("out.txt", "w").write("x")
try:
    await get_weather(city="Nowhere")
except Exception as e:
    print(type(e).__name__, e)
`, map[string]any{"files": []any{ada.upload("in.txt", "text")}, "timeout": 20000})
	if a.Status != "tool_call_required" || len(a.Calls) != 2 || a.Partial != "begin text\n" ||
		a.Calls[0].Name != "get-weather" || a.Calls[1].Name != "class" {
		t.Fatalf("%+v", a)
	}
	if other, status := bob.answer(a); status != http.StatusNotFound {
		t.Errorf("another user continues: %d %+v", status, other)
	}
	first := a
	a, _ = ada.answer(first)
	if repeated, status := ada.answer(first); status != 200 || repeated.Token != a.Token ||
		len(repeated.Calls) != 1 || repeated.Calls[0].ID != a.Calls[0].ID {
		t.Errorf("a repeated step: %d %+v, first %+v", status, repeated, a)
	}
	last := a
	a, _ = ada.answer(last)
	if a.Status != "completed" || a.Stdout != "begin text\nRome class\nToolError no such city\n" ||
		a.Stderr != "" || a.file(t, "out.txt").ID == "" || !a.file(t, "in.txt").Inherited {
		t.Errorf("%+v", a)
	}
	if a, status := ada.answer(last); status != http.StatusNotFound {
		t.Errorf("a program that has ended: %d %+v", status, a)
	}
}

// libreChatEnds ends programs in other ways than by themselves.
func libreChatEnds(t *testing.T, ada *libreChat) {
	a := ada.program("python", "print(1)\nprint(1 / 0)", nil)
	if a.Status != "error" || a.Stdout != "1\n" || !strings.Contains(a.Stderr, "main.py\", line 2") ||
		!strings.Contains(a.Error, "status 1") {
		t.Errorf("%+v", a)
	}
	a = ada.program("python", "print('x' * 3_000_000, flush=True)\nwhile True: pass",
		map[string]any{"timeout": 5000})
	if a.Status != "error" || len(a.Stdout) != 1<<20 || !strings.Contains(a.Stderr, "over 5s") ||
		!strings.Contains(a.Stderr, "bytes of output over the limit") {
		t.Errorf("%d bytes, %q, %q", len(a.Stdout), a.Stderr, a.Error)
	}
	ada.headers["X-LibreChat-Code-Request-ID"] = "r1"
	a = ada.program("bash", "get_weather", nil)
	delete(ada.headers, "X-LibreChat-Code-Request-ID")
	var states []int
	for range 2 {
		status, _, _ := ada.do("POST", "exec/programmatic/cancel", "application/json",
			strings.NewReader(`{"request_id": "r1"}`))
		states = append(states, status)
		eventually(t, "the end of the program", func() bool {
			_, status := ada.answer(a)
			return status == http.StatusNotFound
		})
	}
	if !slices.Equal(states, []int{http.StatusAccepted, http.StatusOK}) {
		t.Errorf("cancelled twice: %v", states)
	}
}

// libreChatHibernated hibernates the session of a program that waits, and continues the program.
func libreChatHibernated(t *testing.T, ctx context.Context) {
	owner := &libreChat{t, ctx, map[string]string{"X-API-Key": server.Token}}
	a := owner.program("python", "x = 6\nprint((await get_weather(city=7))['city'] * x)", nil)
	var list protocol.SessionList
	if _, err := server.Get(ctx, "/v1/sessions?label=surface:librechat-program", &list); err != nil ||
		len(list.Sessions) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	code, err := server.JSON(ctx, "POST", "/v1/sessions/"+list.Sessions[0].ID+"/hibernate", nil, nil)
	if err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	if a, _ = owner.answer(a); a.Status != "completed" || a.Stdout != "42\n" {
		t.Errorf("%+v", a)
	}
}
