package cells

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/clienttest"
	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/message"
)

// script is a kernel whose code is a list of words, one per line.
func script() clienttest.Script {
	return clienttest.Script{
		Execute: func(ctx context.Context, c *clienttest.Cell) message.ExecuteReply {
			reply := message.ExecuteReply{Status: "ok"}
			for _, line := range strings.Split(c.Code, "\n") {
				word, rest, _ := strings.Cut(line, " ")
				switch word {
				case "out":
					c.Stdout(rest + "\n")
				case "err":
					c.Stderr(rest + "\n")
				case "result":
					c.Message(message.ExecuteResultType,
						map[string]any{
							"data": map[string]any{
								"text/plain":       rest,
								"application/json": map[string]int{"a": 1},
							},
							"metadata": map[string]any{},
						})
				case "display":
					c.Message(message.DisplayDataType,
						map[string]any{
							"data":     map[string]any{rest: "<b>"},
							"metadata": map[string]any{},
						})
				case "fail":
					c.Message(message.ErrorType, message.Error{
						EName: rest, EValue: "the value",
						Traceback: []string{"\x1b[31mline 1\x1b[0m", "in driver.x"},
					})
					reply.Status, reply.EName = "error", rest
				case "event":
					c.Message(message.KernelEventType,
						message.KernelEvent{Event: rest, Message: "so it was"})
				case "ask":
					line, _ := c.Ask(rest, rest == "password")
					c.Stdout("got " + line + "\n")
				case "exit":
					code := len(rest)
					reply.ExitCode = &code
				case "hang":
					select {
					case <-c.Interrupted:
						reply.Status, reply.EName = "error", "Interrupt"
						c.Message(message.ErrorType,
							message.Error{EName: "Interrupt", Traceback: []string{}})
					case <-ctx.Done():
					}
				case "sleep":
					time.Sleep(2 * stayed) // the cell that the scripted kernel runs
				case "later":
					time.AfterFunc(50*time.Millisecond, func() { c.Stdout(rest + "\n") })
				}
			}
			return reply
		},
		Complete: func(p protocol.Complete) message.Reply {
			return message.Reply{
				Status: "ok", Start: strings.LastIndex(p.Code, ".") + 1,
				End: p.Cursor, Matches: []message.Match{{Text: "foo"}, {Text: "food"}},
			}
		},
		Inspect: func(p protocol.Complete) message.Reply {
			if len(p.About) > 0 {
				return about(p)
			}
			return message.Reply{
				Status: "ok", Found: true,
				Data: map[string]json.RawMessage{
					"text/plain": json.RawMessage(`"\u001b[1mprint\u001b[0m(x)"`),
				},
			}
		},
		IsComplete: func(string) message.Reply {
			return message.Reply{
				Status:     "ok",
				IsComplete: "incomplete",
			}
		},
		Variables: func() message.Reply {
			return message.Reply{
				Status:    "ok",
				Variables: []message.Variable{{Name: "x", Type: "int", Value: "41", Size: "8 B"}},
			}
		},
		Program: func(_ context.Context, p *clienttest.Program) protocol.Exit {
			b := make([]byte, 16)
			n, _ := p.Stdin.Read(b)
			p.Stdout([]byte(p.Open.File + " " + strings.Join(p.Open.Args, " ") + " " +
				string(b[:n])))
			return protocol.Exit{Code: 3}
		},
	}
}

// TestCases runs valid cases, and cases with one error, which must be reported.
func TestCases(t *testing.T) {
	server := clienttest.New(script())
	defer server.Close()
	c, err := wire.New(server.URL, server.Token, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	s, err := Open(ctx, c, "python", "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	for _, test := range []struct{ name, step, problem string }{
		{"stdout", `{run: out a, stdout: "a\n"}`, ""},
		{"stdout like", `{run: out abc, stdout~: b}`, ""},
		{"stdout differs", `{run: out a, stdout: "b\n"}`, `stdout: wanted "b\n"`},
		{"stdout unwanted", `{run: out a}`, "stdout: wanted nothing"},
		{"stdout bytes", `{run: out abc, stdout_bytes: 4}`, ""},
		{"stdout too short", `{run: out abc, stdout_bytes: 5}`, "wanted 5 bytes, got 4"},
		{"stdout hash", `{run: out abc, stdout_bytes: 4, stdout_sha256: ` +
			`edeaaff3f1774ad2888673770c6d64097e391bc362d7d6fb34982ddf0efd18cb}`, ""},
		{
			"stdout has another hash", `{run: out abc, stdout_bytes: 4, stdout_sha256: "00"}`,
			"wanted the hash 00",
		},
		{"stderr unwanted", `{run: err a}`, "stderr: wanted nothing"},
		{"stderr", `{run: err a, stderr: "a\n"}`, ""},
		{"result", `{run: result 42, result: 42, data: {application/json: '"a":\s?1'}}`, ""},
		{"result any", `{run: result 42, result: any}`, ""},
		{"result verbatim", `{run: result True, result: True}`, ""},
		{"result differs", `{run: result 42, result: 43}`, "result: wanted"},
		{"result unwanted", `{run: result 42}`, "result: wanted none"},
		{"result missing", `{run: out a, stdout: "a\n", result: any}`, "result: wanted one, got 0"},
		{"type missing", `{run: result 42, data: {image/png: x}}`, "result: wanted image/png"},
		{"display", `{run: display text/html, display: [{text/html: <b}]}`, ""},
		{"display unwanted", `{run: display text/html}`, "display: wanted 0, got 1"},
		{
			"display differs", `{run: display text/html, display: [{text/html: <i}]}`,
			"display 1: text/html",
		},
		{
			"error", `{run: fail TypeError, error: {name: TypeError, value: the, traceback: line 1, without: secret}}`, "",
		},
		{"error unwanted", `{run: fail TypeError}`, "status: wanted ok, got error"},
		{
			"error name", `{run: fail TypeError, error: {name: ValueError}}`,
			"error name: wanted ValueError",
		},
		{"error frames", `{run: fail X, error: {without: driver}}`, "it should not have"},
		{"error missing", `{run: out a, stdout~: a, error: {name: X}}`, "no error message came"},
		{"exit code", `{run: exit abc, exit_code: 3}`, ""},
		{"exit code differs", `{run: exit abc, exit_code: 4}`, "exit_code: wanted 4, got 3"},
		{"event", `{run: event restored, event: {event: restored, message: was}}`, ""},
		{"event that may come", `{run: event restored, event: {event: restored, may: true}}`, ""},
		{
			"event that may stay away", `{run: event notice, event: {event: restored, may: true}}`,
			"",
		},
		{"event unwanted", `{run: event state_lost}`, "event: wanted none"},
		{
			"event missing", `{run: event notice, event: {event: restored}}`,
			"event: wanted restored",
		},
		{
			"order", `{run: "out a\nerr b\nout c\nout d\ndisplay text/html\nresult 1", order: ["stdout:a", "stderr:b", "stdout:c\nd", "display:text/html"]}`, "",
		},
		{
			"order differs", `{run: "out a\nerr b", order: ["stderr:b", "stdout:a"]}`,
			"order: wanted",
		},
		{
			"input", `{run: "ask name", input: [{prompt: name, value: Ada}], stdout: "got Ada\n"}`,
			"",
		},
		{"input unexpected", `{run: "ask name", stdout~: got}`, "was not expected"},
		{
			"input missing", `{run: out a, stdout~: a, input: [{}]}`,
			"input: wanted 1 requests, got 0",
		},
		{
			"input prompt", `{run: "ask name", input: [{prompt: other}], stdout~: got}`,
			"wanted the prompt",
		},
		{
			"input password", `{run: "ask password", input: [{prompt: password}], stdout~: got}`,
			"wanted password false, got true",
		},
		{
			"input interrupted",
			`{run: "ask name\nhang", input: [{do: interrupt}], stdout~: got, error: {name: Interrupt}}`, "",
		},
		{
			"interrupt", `{run: "out a\nhang", stdout: "a\n", when: {stdout: a, do: interrupt}, error: {name: Interrupt}}`, "",
		},
		{
			"insist", `{run: "out a\nhang", stdout: "a\n", when: {stdout: a, do: insist}, error: {name: Interrupt}}`, "",
		},
		{
			"streaming", `{run: "out a\nsleep\nout b", stdout: "a\nb\n", when: {stdout: a, do: nothing}}`, "",
		},
		{
			"not streaming", `{run: "sleep\nout a\nout b", stdout: "a\nb\n", when: {stdout: a, do: nothing}}`, "only at the cell's end",
		},
		{
			"never", `{run: "out a", stdout: "a\n", when: {stdout: b, do: nothing}}`,
			"the text never came",
		},
		{"later", `{run: "later on", later: {stdout: on}}`, ""},
		{"later missing", `{run: "out a", stdout~: a, later: {stdout: on}}`, "later: stdout"},
		{"repeat", `{run: "out {i}", repeat: 3, stdout: "{i}\n"}`, ""},
		{"repeat fails", `{run: "out {i}", repeat: 3, stdout: "1\n"}`, "the 2th of 3"},
		{"hang", `{run: "out a\nhang", stdout~: a}`, "did not end within"},
		{"complete", `{complete: "ob.fo|", matches: [foo, ob.foo]}`, ""},
		{"complete lacks", `{complete: "ob.fo|", matches: [oo]}`, "is not among"},
		{"complete has", `{complete: "ob.fo|", without: [food]}`, "is among"},
		{"inspect", `{inspect: "pri|nt", found: true, text: '^print\('}`, ""},
		{"inspect differs", `{inspect: "pri|nt", found: false}`, "found: wanted false"},
		{"question", `{question: "b|", kind: names, before: [a], after: [c], new: d, answer: '"at":1.*"d"'}`, ""},
		{"question differs", `{question: "b|", kind: names, answer: x}`, "wanted something else"},
		{"question without", `{question: "b|", kind: nothing, answer: '^none$'}`, ""},
		{"question refused", `{question: "b|", kind: bad, error: {value: "^no"}}`, ""},
		{"question fails", `{question: "b|", kind: bad, answer: x}`, "the kernel answered: Error: no"},
		{"is_complete", `{is_complete: "if x:", gives: incomplete}`, ""},
		{
			"is_complete differs", `{is_complete: "if x:", gives: complete}`,
			"wanted complete, got incomplete",
		},
		{"variables", `{variables: {x: {type: int, value: '\d+', size: '8.*'}}, without: [y]}`, ""},
		{"variable missing", `{variables: {y: {type: int}}}`, "y is not among x"},
		{"variable differs", `{variables: {x: {value: '4'}}}`, "value of x"},
		{"variable unwanted", `{variables: {}, without: [x]}`, "x is listed"},
		{
			"program", `{program: {file: p.x, content: c, args: [1, -b], stdin: in, stdout: 'p.x 1 -b in', exit: 3}}`, "",
		},
		{"program status", `{program: {file: p.x, content: c, stdout: p}}`, "exit: wanted 0"},
		{"file", `{file: {path: d/a.csv, content: "1,2"}}`, ""},
		{"restart", `{restart: true}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, err := Parse("f.yaml", []byte("- case: one\n  steps:\n  - "+test.step+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			s.limit = StepLimit
			if slices.Contains([]string{"event missing", "later missing", "hang"}, test.name) {
				s.limit = 2 * time.Second
			}
			err = s.Run(ctx, list[0])
			switch {
			case test.problem == "" && err != nil:
				t.Errorf("%v", err)
			case test.problem != "" &&
				(err == nil || !strings.Contains(err.Error(), test.problem) ||
					!strings.Contains(err.Error(), "f.yaml:3")):
				t.Errorf("wanted %q in %v", test.problem, err)
			}
		})
	}
	if b, ok := server.File(s.id, "d/a.csv"); !ok || string(b) != "1,2" {
		t.Errorf("the file is %q", b)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, test := range map[string][2]string{
		"no list":      {"case: x", "list of cases"},
		"unknown key":  {"- case: x\n  stepps: []", "stepps"},
		"unknown step": {"- case: x\n  steps: [{runs: a}]", "runs"},
		"wrong companion": {
			"- case: x\n  steps: [{restart: true, stdout: a}]",
			"stdout does not go with restart",
		},
		"two things": {"- case: x\n  steps: [{run: a, complete: b|}]", "one thing"},
		"no name":    {"- steps: [{run: a}]", "needs a name"},
		"no steps":   {"- case: x", "no steps"},
		"no cursor":  {"- case: x\n  steps: [{complete: a}]", "cursor"},
		"unknown proof": {
			"- case: x\n  proves: [state.everything]\n  steps: [{run: a}]",
			"state.everything",
		},
		"bad pattern":     {"- case: x\n  steps: [{run: a, stdout~: '('}]", "missing closing"},
		"null":            {"- case: x\n  steps: [{run: a, result: null}]", "null means nothing"},
		"bad status":      {"- case: x\n  steps: [{run: a, status: fine}]", "status is"},
		"text twice":      {"- case: x\n  steps: [{run: a, stdout: a, stdout~: a}]", "not both"},
		"second document": {"- case: x\n  steps: [{run: a}]\n---\n- case: y\n", "second document"},
		"bad when":        {"- case: x\n  steps: [{run: a, when: {stdout: a, do: kill}}]", "do is"},
	} {
		if _, err := Parse("f.yaml", []byte(test[0])); err == nil ||
			!strings.Contains(err.Error(), test[1]) {
			t.Errorf("%s: wanted %q, got %v", name, test[1], err)
		}
	}
}

// TestBinaryText reads bytes that are not characters of YAML.
func TestBinaryText(t *testing.T) {
	list, err := Parse("f.yaml", []byte("- case: x\n  steps: [{run: a, stdout: !!binary /wA=}]"))
	if err != nil || *list[0].Steps[0].Stdout != "\xff\x00" {
		t.Errorf("%v, %v", list, err)
	}
}

func TestSuite(t *testing.T) {
	langs := t.TempDir()
	dir := filepath.Join(langs, "toy", "cells")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all := strings.Join(Keys()[1:], ", ")
	put("basics.yaml", "- case: x\n  proves: ["+all+"]\n  steps: [{run: a}]\n")
	check := func(wants string) {
		t.Helper()
		s, err := Load(langs, "toy")
		if err == nil {
			err = s.Check()
		}
		if wants == "" && err != nil || wants != "" &&
			(err == nil || !strings.Contains(err.Error(), wants)) {
			t.Errorf("wanted %q, got %v", wants, err)
		}
	}
	check("gives no reason for: " + Keys()[0])
	put("not.yaml", Keys()[0]+": the language has none\n")
	check("")
	put("not.yaml", Keys()[0]+": ''\n")
	check("has no reason")
	put("not.yaml", Keys()[0]+": none\n"+Keys()[1]+": none\n")
	check("is proved, and")
	put("not.yaml", Keys()[0]+": none\nstate.nothing: none\n")
	check("no key")
	put("not.yaml", Keys()[0]+": none\n")
	put("more.yaml", "- case: x\n  steps: [{run: a}]\n")
	check("there is a case")
	if _, err := Load(langs, "other"); !os.IsNotExist(err) {
		t.Errorf("a language without cells: %v", err)
	}
}

// TestLanguagesHaveProofs reads the cells of every language.
func TestLanguagesHaveProofs(t *testing.T) {
	folders, err := filepath.Glob("../../langs/*/cells")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		s, err := Load("../../langs", filepath.Base(filepath.Dir(f)))
		if err == nil {
			err = s.Check()
		}
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// about answers a question with the question.
func about(p protocol.Complete) message.Reply {
	switch {
	case strings.Contains(string(p.About), "nothing"):
		return message.Reply{Status: "ok"}
	case strings.Contains(string(p.About), "bad"):
		return message.Reply{Status: "error", EName: "Error", EValue: "no"}
	}
	return message.Reply{
		Status: "ok", Found: true,
		Data: map[string]json.RawMessage{"application/json": p.About},
	}
}
