package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// fastGPTRun is the answer to a run of FastGPT.
type fastGPTRun struct {
	Success bool
	Message string
	Data    struct {
		Value json.RawMessage `json:"codeReturn"`
		Log   string
	}
}

// TestFastGPT makes the requests of FastGPT's code nodes.
func TestFastGPT(t *testing.T) {
	ctx := deadline(t)
	key := otherTenant(t, ctx, "fastgpt")
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }
	c := &caller{t, ctx, "/fastgpt", bearer}
	variables := map[string]any{"name": "é", "numbers": []int{1, 2}}
	run := func(language, code string) (r fastGPTRun) {
		t.Helper()
		status := c.json("POST", "/sandbox/"+language, map[string]any{
			"code": code, "variables": variables,
		}, &r)
		if status != 200 {
			t.Fatalf("%d %+v", status, r)
		}
		return r
	}
	r := run("js", `async function main({ name, numbers }) {
  console.log('numbers', { numbers });
  console.error('of', variables.name);
  await delay(1);
  return { token: countToken('12345'), text: strToBase64('a', 'p:'), sum: numbers[0] + numbers[1],
    signed: createHmac('sha256', 's').sign.length > 20, http: typeof SystemHelper.httpRequest };
}`)
	if !r.Success || r.Data.Log != "numbers {\"numbers\":[1,2]}\nof é" || string(r.Data.Value) !=
		`{"token":2,"text":"p:YQ==","sum":3,"signed":true,"http":"function"}` {
		t.Errorf("JavaScript: %+v %s", r, r.Data.Value)
	}
	r = run("js", "function main() { console.log('before'); throw new Error('bad') }")
	if r.Success || r.Message != "bad" {
		t.Errorf("an error: %+v", r)
	}
	for code, want := range map[string]string{
		"def main(numbers, name, more=7):\n    print(name, more)\n    return sum(numbers)": "3",
		"def main(all):\n    return [len(all), count_token(name), time.time() > 0]":        "[2,1,true]",
		"import datetime\ndef main(**v):\n    return [*v, datetime.date(2026, 1, 2)]":      `["name","numbers","2026-01-02"]`,
	} {
		r = run("python", code)
		if !r.Success || string(r.Data.Value) != want {
			t.Errorf("%s: %+v %s", code, r, r.Data.Value)
		}
	}
	if r = run("python", "def main(missing, name): pass"); r.Success ||
		!strings.Contains(r.Message, "missing") {
		t.Errorf("a missing variable: %+v", r)
	}
	r = run("python", "def main():\n    for _ in range(30_000): print('x' * 50)\n    return 1")
	if !r.Success || len(r.Data.Log) < 1<<20 || len(r.Data.Log) > 2<<20 {
		t.Errorf("a long log: %t %s, %d bytes", r.Success, r.Message, len(r.Data.Log))
	}
	if r = run("python", "def main():\n    while True: pass"); r.Success ||
		r.Message != "the program ran for over 10s" {
		t.Errorf("a time-out: %+v", r)
	}
	var modules struct {
		Data struct {
			JS, Python []string
			Globals    []string `json:"builtinGlobals"`
		}
	}
	if status := c.json("GET", "/sandbox/modules", nil, &modules); status != 200 ||
		!slices.Contains(modules.Data.Python, "numpy") || len(modules.Data.JS) == 0 ||
		!slices.Contains(modules.Data.Globals, "SystemHelper.httpRequest") {
		t.Errorf("modules: %d %+v", status, modules)
	}
	open := &caller{t, ctx, "/fastgpt", nil}
	if status := open.json("POST", "/sandbox/js", map[string]any{}, &r); status != 401 || r.Success {
		t.Errorf("without a key: %d %+v", status, r)
	}
	c.abandon(key, "fastgpt", "/sandbox/python", map[string]any{
		"code": "def main():\n    while True: pass",
	})
}
