package e2b

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A box is a sandbox that is reached without an SDK.
type box struct {
	t    *testing.T
	ctx  context.Context
	d    *deployment
	info boxInfo
}

// A boxInfo is the answer to the creation of a sandbox.
type boxInfo struct {
	SandboxID          string `json:"sandboxID"`
	ClientID           string `json:"clientID"`
	TemplateID         string `json:"templateID"`
	EnvdVersion        string `json:"envdVersion"`
	EnvdAccessToken    string `json:"envdAccessToken"`
	TrafficAccessToken string `json:"trafficAccessToken"`
}

// An answer is a response that was read completely.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// code returns the code and the message of an error.
func (a answer) code(t *testing.T) (any, string) {
	t.Helper()
	var body struct {
		Code    any
		Message string
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		t.Fatalf("not JSON: %d %s", a.status, a.body)
	}
	return body.Code, body.Message
}

// send sends a request. Headers are pairs.
func (d *deployment) send(
	ctx context.Context, method, path string, body any, headers ...string,
) (answer, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		r = bytes.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return answer{}, err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, d.URL+path, r)
	if err != nil {
		return answer{}, err
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, got}, err
}

// api sends a request to the control plane.
func (d *deployment) api(t *testing.T, method, path string, body any) answer {
	t.Helper()
	a, err := d.send(deadline(t), method, path, body, "X-API-KEY", d.key)
	check(t, err)
	return a
}

// create creates a sandbox.
func create(t *testing.T, d *deployment, options map[string]any) *box {
	t.Helper()
	body := map[string]any{"templateID": "base", "timeout": 300}
	for name, value := range options {
		body[name] = value
	}
	a := d.api(t, "POST", "/v2/sandboxes", body)
	if a.status != http.StatusCreated {
		t.Fatalf("create: %d %s", a.status, a.body)
	}
	b := &box{t: t, ctx: deadline(t), d: d}
	check(t, json.Unmarshal(a.body, &b.info))
	t.Cleanup(func() {
		_, _ = d.send(context.WithoutCancel(b.ctx), "DELETE", "/sandboxes/"+b.info.SandboxID, nil,
			"X-API-KEY", d.key)
	})
	return b
}

// routed returns the headers that lead to a port of the sandbox, and more.
func (b *box) routed(port int, more ...string) []string {
	return append([]string{
		"E2b-Sandbox-Id", b.info.SandboxID, "E2b-Sandbox-Port", fmt.Sprint(port),
	}, more...)
}

// envd sends a request to port 49983 with the access token.
func (b *box) envd(method, path string, body any, headers ...string) answer {
	b.t.Helper()
	a, err := b.d.send(b.ctx, method, path, body,
		b.routed(49983, append([]string{"X-Access-Token", b.info.EnvdAccessToken}, headers...)...)...)
	check(b.t, err)
	return a
}

// call makes a unary call, as the Python SDK does.
func (b *box) call(method string, request any, response any) {
	b.t.Helper()
	a := b.envd("POST", "/"+method, request, "Connect-Protocol-Version", "1",
		"User-Agent", "e2b-python-sdk/2.45.1")
	if a.status != http.StatusOK {
		b.t.Fatalf("%s: %d %s", method, a.status, a.body)
	}
	if response != nil {
		check(b.t, json.Unmarshal(a.body, response))
	}
}

// envelope is a message of a stream.
func envelope(flags byte, body []byte) []byte {
	out := append([]byte{flags}, binary.BigEndian.AppendUint32(nil, uint32(len(body)))...)
	return append(out, body...)
}

// A stream is a stream of a server that is read message by message.
type stream struct {
	t    *testing.T
	body io.ReadCloser
}

// stream opens a stream.
func (b *box) stream(method string, request any, headers ...string) *stream {
	b.t.Helper()
	raw, err := json.Marshal(request)
	check(b.t, err)
	req, err := http.NewRequestWithContext(b.ctx, "POST", b.d.URL+"/"+method,
		bytes.NewReader(envelope(0, raw)))
	check(b.t, err)
	all := append(b.routed(49983, "X-Access-Token", b.info.EnvdAccessToken,
		"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1"), headers...)
	for i := 0; i+1 < len(all); i += 2 {
		req.Header.Set(all[i], all[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	check(b.t, err)
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		b.t.Fatalf("%s: %d %s", method, res.StatusCode, body)
	}
	b.t.Cleanup(func() { res.Body.Close() })
	return &stream{b.t, res.Body}
}

// next reads a message. The last one ends the stream.
func (s *stream) next() (body map[string]any, last bool, err error) {
	var head [5]byte
	if _, err := io.ReadFull(s.body, head[:]); err != nil {
		return nil, false, err
	}
	raw := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(s.body, raw); err != nil {
		return nil, false, err
	}
	err = json.Unmarshal(raw, &body)
	return body, head[0]&2 != 0, err
}

// A whole is the content of a stream of a process.
type whole struct {
	stdout, stderr string
	pid            float64
	end            map[string]any
	err            map[string]any // the error at the end of the stream
}

// process reads the stream of a process to its end.
func (s *stream) process() whole {
	s.t.Helper()
	var w whole
	for {
		body, last, err := s.next()
		check(s.t, err)
		if last {
			w.err, _ = body["error"].(map[string]any)
			return w
		}
		event, _ := body["event"].(map[string]any)
		if start, ok := event["start"].(map[string]any); ok {
			w.pid, _ = start["pid"].(float64)
		}
		if data, ok := event["data"].(map[string]any); ok {
			w.stdout += unbase64(s.t, data["stdout"])
			w.stderr += unbase64(s.t, data["stderr"])
		}
		if end, ok := event["end"].(map[string]any); ok {
			w.end = end
		}
	}
}

func unbase64(t *testing.T, v any) string {
	t.Helper()
	text, _ := v.(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	check(t, err)
	return string(raw)
}

// start is the request to run a command line.
func start(command string) map[string]any {
	return map[string]any{"process": map[string]any{
		"cmd": "/bin/bash", "args": []string{"-l", "-c", command},
	}, "stdin": false}
}

// expect fails the test unless an answer has the status and its text contains the words.
func expect(t *testing.T, what string, a answer, status int, words ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: status %d, want %d: %s", what, a.status, status, a.body)
		return
	}
	for _, w := range words {
		if !strings.Contains(string(a.body), w) {
			t.Errorf("%s: no %q in %s", what, w, a.body)
		}
	}
}
