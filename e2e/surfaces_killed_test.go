package e2e

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
)

// The programs of a call that waits until the file go exists, and of the next call, which sees what
// the first one has left.
const (
	waitInPython = "import os, time\nkept = 41\nopen('/home/user/begun', 'w').close()\n" +
		"while not os.path.exists('/home/user/go'): time.sleep(0.02)"
	nextInPython = "print(kept + 1)"
	waitInShell  = "touch /home/user/begun; until [ -e /home/user/go ]; do sleep 0.02; done"
	nextInShell  = "test -e /home/user/begun && echo $((41 + 1))"
)

// surfaceCall is a call of a surface with a program, and its next call.
type surfaceCall struct {
	*caller
	surface, tenant, key, path string
	// kept is set if the next call is in the same session.
	kept        bool
	first, next map[string]any
}

// send makes a call. A gateway that is killed during it makes it fail.
func (c surfaceCall) send(body map[string]any) (string, error) {
	raw, _ := json.Marshal(body)
	_, text, err := c.do(c.ctx, "POST", c.path, "application/json", strings.NewReader(string(raw)))
	return string(text), err
}

// session returns the session of the call; empty while there is none.
func (c surfaceCall) session() string {
	c.t.Helper()
	k, err := wire.New(server.URL, c.key, wire.Options{})
	check(c.t, err)
	list, err := k.Sessions(c.ctx)
	check(c.t, err)
	for _, s := range list {
		if s.Labels["surface"] == c.surface {
			return s.ID
		}
	}
	return ""
}

// begun reports whether the program of the first call runs.
func (c surfaceCall) begun() bool {
	c.t.Helper()
	id := c.session()
	if id == "" || !c.kept {
		return id != ""
	}
	req, err := http.NewRequestWithContext(c.ctx, "HEAD",
		server.URL+"/v1/sessions/"+id+"/files/begun", nil)
	check(c.t, err)
	req.Header.Set("Authorization", "Bearer "+c.key)
	res, err := http.DefaultClient.Do(req)
	check(c.t, err)
	return res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

// newSurfaceCall returns a call with a key of its own, in a tenant of the test, and more headers.
func newSurfaceCall(t *testing.T, surface, prefix, path string, more map[string]string,
) surfaceCall {
	t.Helper()
	ctx := deadline(t)
	tenant := strings.ToLower(t.Name()) + "-" + surface
	key := otherTenant(t, ctx, tenant)
	return surfaceCall{caller: &caller{t, ctx, prefix, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("X-Api-Key", key)
		for name, value := range more {
			r.Header.Set(name, value)
		}
	}}, surface: surface, tenant: tenant, key: key, path: path}
}

// sessionCalls returns a call of each surface whose programs run in a session of the client.
func sessionCalls(t *testing.T) []surfaceCall {
	t.Helper()
	path := azureSession{identifier: "one"}.url("/code/execute", azureBefore)
	azure := newSurfaceCall(t, "azure", "/azure/pool", path, nil)
	azure.first, azure.next = azureCode(waitInPython), azureCode(nextInPython)

	terminal := newSurfaceCall(t, "openterminal", "/openterminal", "/execute?wait=60",
		map[string]string{"X-User-Id": "ada", "X-Session-Id": "chat"})
	terminal.first = map[string]any{"command": waitInShell}
	terminal.next = map[string]any{"command": nextInShell}

	sandbox := newSurfaceCall(t, "opensandbox", "", "/code", nil)
	sandbox.caller = openSandboxCaller(t, sandbox)
	sandbox.first = openSandboxProgram(waitInPython)
	sandbox.next = openSandboxProgram(nextInPython)

	lobe := newSurfaceCall(t, "onlyboxes", "/onlyboxes/api/v1", "/commands/terminal", nil)
	lobe.first, lobe.next = lobeHubCommand(waitInShell), lobeHubCommand(nextInShell)

	chat := newSurfaceCall(t, "librechat", "/librechat/v1", "/exec", nil)
	chat.first, chat.next = libreChatProgram(waitInShell, "chat"), libreChatProgram(nextInShell, "chat")
	all := []surfaceCall{azure, terminal, sandbox, lobe, chat}
	for i := range all {
		all[i].kept = true
	}
	return all
}

// oneShotCalls returns a call of each surface whose programs have a sandbox of their own. The time
// limit of FastGPT's programs is 2 s, so it is the last one.
func oneShotCalls(t *testing.T) []surfaceCall {
	t.Helper()
	dify := newSurfaceCall(t, "dify", "/dify", "/v1/sandbox/run", nil)
	dify.first = difyProgram("import time\ntime.sleep(300)")
	dify.next = difyProgram("print(41 + 1)")

	ragflow := newSurfaceCall(t, "ragflow", "/ragflow", "/run", nil)
	ragflow.first = ragflowProgram("def main():\n    import time\n    time.sleep(300)")
	ragflow.next = ragflowProgram("def main():\n    return 41 + 1")

	chat := newSurfaceCall(t, "librechat-run", "/librechat/v1", "/exec", nil)
	chat.first, chat.next = libreChatProgram("sleep 300", ""), libreChatProgram("echo $((41 + 1))", "")

	fastGPT := newSurfaceCall(t, "fastgpt", "/fastgpt", "/sandbox/python", nil)
	fastGPT.first = fastGPTProgram("def main():\n    while True: pass")
	fastGPT.next = fastGPTProgram("def main():\n    return 41 + 1")
	return []surfaceCall{dify, ragflow, chat, fastGPT}
}

func azureCode(code string) map[string]any {
	return map[string]any{"properties": map[string]any{
		"codeInputType": "inline", "executionType": "synchronous", "code": code,
		"timeoutInSeconds": 60,
	}}
}

// openSandboxCaller creates a sandbox, and returns a caller of its programs.
func openSandboxCaller(t *testing.T, c surfaceCall) *caller {
	t.Helper()
	life := &openSandbox{t, c.ctx, server.URL + "/opensandbox/v1", map[string]string{
		"OPEN-SANDBOX-API-KEY": c.key,
	}}
	var s openSandboxState
	life.do("POST", "/sandboxes", map[string]any{
		"image": map[string]string{"uri": "code"}, "timeout": 600, "entrypoint": []string{"tail"},
		"resourceLimits": map[string]string{},
	}, &s)
	var at struct {
		Endpoint string
		Headers  map[string]string
	}
	if status := life.do("GET", "/sandboxes/"+s.ID+"/endpoints/44772", nil, &at); status != 200 {
		t.Fatalf("the sandbox has no endpoint: %d", status)
	}
	prefix := strings.TrimPrefix("http://"+at.Endpoint, server.URL)
	return &caller{t, c.ctx, prefix, func(r *http.Request) {
		for name, value := range at.Headers {
			r.Header.Set(name, value)
		}
	}}
}

func openSandboxProgram(code string) map[string]any {
	return map[string]any{"code": code, "context": map[string]any{"language": "python"}}
}

func lobeHubCommand(command string) map[string]any {
	return map[string]any{
		"command": command, "session_id": "topic", "create_if_missing": true, "timeout_ms": 60_000,
	}
}

// libreChatProgram returns a run in the session of a conversation, or in a session of its own.
func libreChatProgram(code, conversation string) map[string]any {
	body := map[string]any{"lang": "bash", "code": code, "timeout": 60_000}
	if conversation != "" {
		body["runtime_session_hint"] = conversation
	}
	return body
}

func difyProgram(code string) map[string]any {
	return map[string]any{"language": "python3", "code": code, "preload": "", "enable_network": true}
}

func ragflowProgram(code string) map[string]any {
	return map[string]any{
		"code_b64": base64.StdEncoding.EncodeToString([]byte(code)), "language": "python",
		"arguments": map[string]any{},
	}
}

func fastGPTProgram(code string) map[string]any {
	return map[string]any{"code": code, "variables": map[string]any{}}
}

// TestSurfacesGatewayDies kills the gateway while a program of each surface runs. Each client sees a
// cut connection, and its next call works, in the same session if the surface has sessions. A program
// that waits for the result of a tool gets it from the next gateway.
func TestSurfacesGatewayDies(t *testing.T) {
	calls := append(sessionCalls(t), oneShotCalls(t)...)
	tools := libreChatUser(t, deadline(t), "killed")
	waits := tools.program("python", "x = 6\nprint((await get_weather(city=7))['city'] * x)", nil)
	type end struct {
		surface, text string
		err           error
	}
	ended := make(chan end, len(calls))
	for _, c := range calls {
		go func() {
			text, err := c.send(c.first)
			ended <- end{c.surface, text, err}
		}()
		eventually(t, "the program of "+c.surface+" runs", c.begun)
	}
	check(t, server.ReplaceGateway(deadline(t)))
	for range calls {
		if e := <-ended; e.err == nil {
			t.Errorf("%s: the call was answered: %s", e.surface, e.text)
		}
	}
	if a, _ := tools.answer(waits); a.Status != "completed" || a.Stdout != "42\n" {
		t.Errorf("a program that waits for a tool: %+v", a)
	}
	for _, c := range calls {
		if c.kept {
			k, err := wire.New(server.URL, c.key, wire.Options{})
			check(t, err)
			_, err = k.Upload(c.ctx, c.session(), "go", 0, strings.NewReader(""))
			check(t, err)
		}
		text, err := c.send(c.next)
		if err != nil || !strings.Contains(text, "42") {
			t.Errorf("%s: the next call: %s %v", c.surface, text, err)
		}
	}
}

// TestOneShotUsers runs programs of two users on the surfaces without sessions: the next user sees
// nothing of the one before, with another key of the same tenant or of another one.
func TestOneShotUsers(t *testing.T) {
	const leave = "import os\nfor d in (os.path.expanduser('~'), '/tmp', '.', '/var/tmp'):\n" +
		"    try: open(d + '/left-by-ada', 'w').close()\n    except OSError: pass\n"
	const look = "import os\nseen = [d for d in (os.path.expanduser('~'), '/tmp', '.', '/var/tmp') " +
		"if os.path.exists(d + '/left-by-ada')]\n"
	programs := map[string]func(code, result string) map[string]any{
		"dify": func(code, result string) map[string]any {
			return difyProgram(code + "print('found', " + result + ")")
		},
		"librechat-run": func(code, result string) map[string]any {
			return map[string]any{"lang": "py", "code": code + "print('found', " + result + ")"}
		},
		"ragflow": func(code, result string) map[string]any {
			return ragflowProgram("def main():\n    " + strings.ReplaceAll(code, "\n", "\n    ") +
				"\n    return 'found ' + str(" + result + ")")
		},
		"fastgpt": func(code, result string) map[string]any {
			return fastGPTProgram("def main():\n    " + strings.ReplaceAll(code, "\n", "\n    ") +
				"\n    return 'found ' + str(" + result + ")")
		},
	}
	for _, c := range oneShotCalls(t) {
		program := programs[c.surface]
		if text, err := c.send(program(leave, "1")); err != nil || !strings.Contains(text, "found 1") {
			t.Errorf("%s, the first user: %s %v", c.surface, text, err)
		}
		other := c
		other.caller = &caller{c.t, c.ctx, c.prefix, nil}
		for label, secret := range map[string]string{
			"another key":    otherTenant(t, c.ctx, c.tenant),
			"another tenant": otherTenant(t, c.ctx, "other-"+c.surface),
		} {
			other.caller.key = func(r *http.Request) {
				maps.Copy(r.Header, http.Header{
					"X-Api-Key": {secret}, "Authorization": {"Bearer " + secret},
				})
			}
			text, err := other.send(program(look, "seen"))
			if err != nil || !strings.Contains(text, "found []") {
				t.Errorf("%s, %s: %s %v", c.surface, label, text, err)
			}
		}
	}
}
