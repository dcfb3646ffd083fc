package client

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/clienttest"
	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// script prints each line of the code that begins with "print ", and returns the last one.
func script() clienttest.Script {
	return clienttest.Script{
		Execute: func(ctx context.Context, c *clienttest.Cell) message.ExecuteReply {
			lines := strings.Split(c.Code, "\n")
			for _, line := range lines {
				text, is := strings.CutPrefix(line, "print ")
				switch {
				case is:
					c.Stdout(text + "\n")
				case line == "ask":
					answer, _ := c.Ask("? ", false)
					c.Stdout("got " + answer + "\n")
				case line == "sleep":
					<-c.Interrupted
					return message.ExecuteReply{Status: "error", EName: "KeyboardInterrupt"}
				case line == "fail":
					c.Message(message.ErrorType, message.Error{EName: "E", EValue: "bad"})
					return message.ExecuteReply{Status: "error", EName: "E", EValue: "bad"}
				}
			}
			c.Message(message.ExecuteResultType, message.Bundle{
				Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"value"`)},
			})
			return message.ExecuteReply{Status: "ok", Count: 1, Millis: 1}
		},
		Program: func(_ context.Context, p *clienttest.Program) protocol.Exit {
			p.Stdout([]byte("a\n"))
			p.Stderr([]byte("b\n"))
			in, _ := io.ReadAll(p.Stdin)
			p.Stdout(in)
			return protocol.Exit{Code: len(in)}
		},
	}
}

func open(t *testing.T) (context.Context, *Sandbox) {
	t.Helper()
	server := clienttest.New(script())
	t.Cleanup(server.Close)
	c, err := New(Options{URL: server.URL, Token: server.Token, MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	s, err := c.Sandbox(ctx, SandboxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		_ = c.Close()
	})
	return ctx, s
}

// TestRun runs code, answers its questions, leaves it and stops it.
func TestRun(t *testing.T) {
	ctx, s := open(t)
	var parts []string
	stdin := "one\n"
	r, err := s.Run(ctx, "print x\nask\nask", RunOptions{
		Stdin: &stdin, OnStdout: func(text string) { parts = append(parts, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Text() != "value" || r.Stdout() != "x\ngot one\ngot \n" || !r.OK() ||
		strings.Join(parts, "") != r.Stdout() {
		t.Errorf("%+v, parts %q", r, parts)
	}
	r, err = s.Run(ctx, "fail")
	if err != nil || r.Error == nil || r.Error.Error() != "E: bad" || r.Status != "error" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err = s.Run(ctx, "fail", RunOptions{Check: true}); fmt.Sprint(err) != "E: bad" {
		t.Errorf("with Check: %v", err)
	}
	for o, err := range s.Stream(ctx, "print 1\nsleep") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Type == OutputStdout {
			break // the code is interrupted, so the next run ends
		}
	}
	if r, err = s.Run(ctx, "print 2", RunOptions{MaxOutput: 1}); err != nil || r.Stdout() != "2" ||
		r.Truncated != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRepeatedRun: a run with a known key returns the output of the first one.
func TestRepeatedRun(t *testing.T) {
	ctx, s := open(t)
	for range 2 {
		for _, text := range []string{"one", "two"} {
			r, err := s.Run(ctx, "print "+text, RunOptions{Key: "key-" + text})
			if err != nil || r.Stdout() != text+"\n" || r.Text() != "value" {
				t.Errorf("%s: %+v, %v", text, r, err)
			}
		}
	}
	k, err := s.Kernel(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := k.Run(ctx, "print three"); err != nil || r.Stdout() != "three\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCanceledRun: the end of the context interrupts the code.
func TestCanceledRun(t *testing.T) {
	ctx, s := open(t)
	short, cancel := context.WithCancel(ctx)
	_, err := s.Run(short, "print on\nsleep", RunOptions{OnStdout: func(string) { cancel() }})
	if !fault.Is(err, fault.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	if r, err := s.Run(ctx, "print after"); err != nil || r.Stdout() != "after\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWrongAddress: a request to a server that is not there ends without a deadline of its own.
func TestWrongAddress(t *testing.T) {
	c, err := New(Options{URL: "http://127.0.0.1:1", ConnectTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Sandbox(t.Context(), SandboxOptions{})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("%v", err)
	}
}

// TestCall refuses operations that need more than parameters.
func TestCall(t *testing.T) {
	ctx, s := open(t)
	for op, text := range map[string]string{
		"no.operation": "no operation", protocol.OpSignal: "attached channel",
		protocol.OpAdopt: "no operation", protocol.OpTenantQuota: "Tenants.SetQuota",
	} {
		err := s.Client().Call(ctx, op, nil, nil)
		if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", op, err)
		}
	}
	var list protocol.SessionList
	if err := s.Client().Call(ctx, protocol.OpSessionList, nil, &list); err != nil ||
		len(list.Sessions) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestExec runs a command with input.
func TestExec(t *testing.T) {
	ctx, s := open(t)
	r, err := s.Exec(ctx, "cat", ExecOptions{Stdin: []byte("hello")})
	if err != nil || r.ExitCode != 5 || r.Stdout != "a\nhello" || r.Stderr != "b\n" ||
		r.Text != "a\nb\nhello" || r.Status != "error" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err = s.Exec(ctx, "cat", ExecOptions{Stdin: []byte("x"), Check: true}); err == nil ||
		err.Error() != "the command ended with 1: b" {
		t.Errorf("with Check: %v", err)
	}
	p, err := s.Start(ctx, "cat", ExecOptions{Input: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(ctx, []byte("in\n")); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line, err := range p.Logs(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if got := strings.Join(lines, ""); got != "a\nb\nin\n" {
		t.Errorf("lines %q", lines)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestClosedSandbox: Close deletes a session without a name, and no other.
func TestClosedSandbox(t *testing.T) {
	server := clienttest.New(script())
	defer server.Close()
	c, err := New(Options{URL: server.URL, Token: server.Token})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, o := range []SandboxOptions{{}, {Keep: true}} {
		s, err := c.Sandbox(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = c.GetSandbox(t.Context(), s.ID())
		if gone := fault.Is(err, fault.NotFound); gone == o.Keep {
			t.Errorf("Keep %v: %v", o.Keep, err)
		}
	}
}

// TestEachOperationHasARequest builds the request of each operation that works only over HTTP, with
// all fields of its parameters set.
func TestEachOperationHasARequest(t *testing.T) {
	for _, o := range protocol.Operations() {
		if o.Transport != protocol.HTTPOnly || special(o.Name) != "" {
			continue
		}
		params := map[string]any{}
		for part := range strings.SplitSeq(o.REST[0].Path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				params[strings.TrimSuffix(name, "}")] = "a/b"
			}
		}
		params["more"] = 1
		r, err := request(o, params)
		if err != nil {
			t.Errorf("%s: %v", o.Name, err)
			continue
		}
		if path := strings.Join(r.Path, "|"); strings.Contains(path, "{") || r.Path[0] != "v1" {
			t.Errorf("%s: the path is %q", o.Name, path)
		}
		fields, _ := r.JSON.(map[string]json.RawMessage)
		if (r.Query.Get("more") == "1") == (string(fields["more"]) == "1") {
			t.Errorf("%s: the other field is in %v and %v", o.Name, r.Query, r.JSON)
		}
		if _, err := request(o, nil); strings.Contains(o.REST[0].Path, "{") && err == nil {
			t.Errorf("%s: a request without the fields of its path has no error", o.Name)
		}
	}
}

// TestWhere takes the address and the token from the options, the environment and the profile.
func TestWhere(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	file := filepath.Join(home, profilePath)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("# text\nurl: \"http://stored\"\ntoken: \"kept\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ url, token, envURL, envToken, want string }{
		{want: "http://stored kept"},
		{url: "http://given", want: "http://given "},
		{url: "http://given#token=x", want: "http://given#token=x x"},
		{url: "http://given", token: "t", envToken: "e", want: "http://given t"},
		{envURL: "http://env", want: "http://env "},
		{envURL: "http://env", envToken: "e", want: "http://env e"},
		{envURL: "http://stored/", want: "http://stored/ kept"},
	} {
		t.Setenv("SANDGATE_URL", c.envURL)
		t.Setenv("SANDGATE_TOKEN", c.envToken)
		address, token, err := where(Options{URL: c.url, Token: c.token})
		if got := address + " " + token; err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SANDGATE_URL", "")
	if _, err := FromEnv(); fault.PublicOf(err).Field != "url" {
		t.Errorf("without a server: %v", err)
	}
}

// TestRepeatedRequests: a request that creates something over HTTP is repeated with its key.
func TestRepeatedRequests(t *testing.T) {
	var mu sync.Mutex // guards keys
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys = append(keys, r.Header.Get(wire.KeyHeader))
		n := len(keys)
		mu.Unlock()
		switch n {
		case 1: // the connection is lost before the reply
			panic(http.ErrAbortHandler)
		case 2: // or within it
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		default:
			_, _ = w.Write([]byte(`{"key":{"id":"k"},"secret":"s"}`))
		}
	}))
	defer server.Close()
	c, err := New(Options{URL: server.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := c.Keys.Create(t.Context(), protocol.KeyCreate{Role: "driver"})
	if err != nil || key.Secret != "s" {
		t.Errorf("%+v, %v", key, err)
	}
	seen := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(keys)
	}
	if keys := seen(); len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("the keys are %q", keys)
	}
	if _, err := c.Keys.Create(t.Context(), protocol.KeyCreate{}); err != nil ||
		seen()[3] == seen()[2] {
		t.Errorf("another request has the key of the first, %v", err)
	}
	if err := c.Keys.Revoke(t.Context(), "k"); err != nil || seen()[4] != "" {
		t.Errorf("a request that creates nothing: keys %q, %v", seen(), err)
	}
	for retries, want := range map[int]int{-1: 1, 2: 3} {
		c.retries = retries
		n := 0
		err := c.repeat(t.Context(), "test", func() error {
			n++
			return fault.New(fault.Unavailable, "test", "it is away")
		})
		if n != want || !fault.Is(err, fault.Unavailable) {
			t.Errorf("with %d retries: %d requests, %v", retries, n, err)
		}
	}
}

// TestCutCharacters decodes text whose characters are divided between records.
func TestCutCharacters(t *testing.T) {
	var d decoder
	var got strings.Builder
	text := "aé€😀b"
	for i := range len(text) {
		for _, o := range d.decode(frame.Record{
			Kind: frame.KindStdout, Payload: []byte(text[i : i+1]),
		}) {
			got.WriteString(o.Text)
		}
	}
	if got.String() != text {
		t.Errorf("%q, want %q", got.String(), text)
	}
}

// TestResults builds a result from output with updates, a clearing and pictures.
func TestResults(t *testing.T) {
	e := &Execution{limit: MaxOutput}
	data := func(mime, value string) map[string]json.RawMessage {
		return map[string]json.RawMessage{mime: json.RawMessage(value)}
	}
	for _, o := range []Output{
		{Type: OutputStdout, Text: "dropped"},
		{Type: OutputClear, Wait: true},
		{Type: OutputStdout, Text: "kept"},
		{Type: OutputDisplay, Result: &Result{Data: data("image/png", `"aGk="`), DisplayID: "d"}},
		{Type: OutputUpdate, Result: &Result{
			Data: data("text/html", `["<b>","</b>"]`), DisplayID: "d",
		}},
		{Type: OutputDisplay, Result: &Result{Data: data("image/png", `"aGk=\n"`)}},
		{Type: OutputResult, Result: &Result{
			Data: data("application/json", `{"a":1}`), IsMain: true,
		}},
		{Type: OutputGap, Missing: 5},
		{Type: OutputOther, Message: json.RawMessage(`{"event":"limit","limit":"cell_seconds"}`)},
		{Type: OutputDone, Status: "error", Error: executionError("E", "", nil)},
	} {
		e.add(o)
	}
	if e.Stdout() != "kept" || e.HTML() != "<b></b>" || string(e.PNG()) != "hi" ||
		string(e.JSON()) != `{"a":1}` || e.Missing != 5 || e.Status != "timeout" ||
		e.Error.Error() != "E" || e.Text() != "" {
		t.Errorf("%+v", e)
	}
	if got := e.Results[1].Formats(); !reflect.DeepEqual(got, []string{"png"}) {
		t.Errorf("formats %v", got)
	}
}

// TestTemplateTar compares the tar of a template with its description.
func TestTemplateTar(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := NewTemplate("python").Packages("python", "a").Packages("python", "b").Env("A", "b").
		Code("1").Code("2").File("f", []byte("f")).File("/etc/g", nil).Folder(dir, "sub").Tar(&b)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var spec protocol.TemplateSpec
	r := tar.NewReader(&b)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "template.json" {
			if err := json.NewDecoder(r).Decode(&spec); err != nil {
				t.Fatal(err)
			}
		}
		names = append(names, fmt.Sprintf("%s %o", h.Name, h.Mode))
	}
	want := "template.json 644, files/home/user/f 644, files/etc/g 644, " +
		"files/home/user/sub/run.sh 700"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if spec.Code != "1\n2" || len(spec.Packages["python"]) != 2 || spec.Env["A"] != "b" {
		t.Errorf("%+v", spec)
	}
	if err := NewTemplate().Folder(filepath.Join(dir, "none"), "").Tar(&b); err == nil {
		t.Error("a folder that is not there has no error")
	}
}
