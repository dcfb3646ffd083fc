package interpreter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// TestExecute runs a cell and checks the order and the form of its lines. A character that is cut
// between two records stays whole, and output of other cells is left out.
func TestExecute(t *testing.T) {
	n := &fakeNode{run: func(l *fakeLink, cell uint32, _ protocol.Execute) {
		l.records(printed(99, frame.KindStdout, "other"), began(cell),
			printed(cell, frame.KindStdout, "a\xc3"))
		l.records(printed(cell, frame.KindStderr, "err\x01\"\\\n"),
			printed(cell, frame.KindStdout, "\xa4\U0001f600\xff"),
			said(cell, message.ExecuteResultType, message.Bundle{Data: map[string]json.RawMessage{
				"text/plain": json.RawMessage(`"'ä'"`),
			}}), printed(cell, frame.KindStdout, "\xe2\x82"), ended(cell, "ok"))
	}}
	r := newRig(t, n)
	status, body := r.do("POST", "/execute", `{"code":"x","unknown":1}`)
	if status != http.StatusOK {
		t.Fatal(status, body)
	}
	same(t, events(t, body), `[
		{"type":"number_of_executions","execution_count":1},
		{"type":"stdout","text":"a"},
		{"type":"stderr","text":"err\u0001\"\\\n"},
		{"type":"stdout","text":"ä😀�"},
		{"type":"result","is_main_result":true,"text":"ä","extra":{}},
		{"type":"stdout","text":"�"},
		{"type":"end_of_execution"}]`)
	r.done.Wait()
	if n.acks != 1 {
		t.Errorf("%d acknowledgements", n.acks)
	}
	if p := n.executed[0]; p.Code != "x" || !p.NoInput || !p.KeepGoing || p.Silent || p.Key == "" {
		t.Errorf("%+v", p)
	}
	if o := n.opened[0]; o.Language != "python" || o.Key != "" || o.Session != "s_abc" {
		t.Errorf("%+v", o)
	}
}

// TestResults checks the field of every format.
func TestResults(t *testing.T) {
	data := map[string]json.RawMessage{
		"text/plain": json.RawMessage(`"\"quoted\""`), "text/html": json.RawMessage(`"<b>"`),
		"text/markdown": json.RawMessage(`"*a*"`), "image/svg+xml": json.RawMessage(`"<svg/>"`),
		"image/png": json.RawMessage(`"iVBO"`), "image/jpeg": json.RawMessage(`"/9j/"`),
		"application/pdf": json.RawMessage(`"JVBE"`), "text/latex": json.RawMessage(`"$x$"`),
		"application/json":                    json.RawMessage("{\n\"a\":\r\n[1]}"),
		"application/javascript":              json.RawMessage(`"alert()"`),
		"application/vnd.sandgate.chart+json": json.RawMessage(`{"type":"line"}`),
		"application/vnd.sandgate.data+json":  json.RawMessage(`{"a":[1]}`),
		"application/x-own":                   json.RawMessage(`"ü"`),
		"application/x-none":                  nil,
	}
	line := string(appendResult(nil, message.Bundle{Data: data}, false))
	if strings.Count(line, "\n") != 1 || strings.Contains(line, "\r") {
		t.Errorf("%q is not one line", line)
	}
	same(t, events(t, line), `[{"type":"result","is_main_result":false,"text":"quoted",
		"html":"<b>","markdown":"*a*","svg":"<svg/>","png":"iVBO","jpeg":"/9j/","pdf":"JVBE",
		"latex":"$x$","json":{"a":[1]},"javascript":"alert()","chart":{"type":"line"},
		"data":{"a":[1]},"extra":{"application/x-own":"ü","application/x-none":null}}]`)

	both := message.Bundle{Data: map[string]json.RawMessage{
		"e2b/chart":                           json.RawMessage(`1`),
		"application/vnd.sandgate.chart+json": json.RawMessage(`2`),
		"text/plain":                          json.RawMessage(`["a list"]`),
	}}
	same(t, events(t, string(appendResult(nil, both, true))), `[{"type":"result",
		"is_main_result":true,"chart":2,"extra":{"e2b/chart":1},"text":["a list"]}]`)
	for text, want := range map[string]string{
		`"'"`: `"'"`, `"''"`: `""`, `"'a\""`: `"'a\""`, `"a"`: `"a"`, `""`: `""`,
	} {
		if got := string(appendPlain(nil, json.RawMessage(text))); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

// TestErrors checks that each failure has one error, also if the kernel sends none.
func TestErrors(t *testing.T) {
	raised := func(cell uint32, name, value string, traceback ...string) frame.Record {
		return said(cell, message.ErrorType,
			message.Error{EName: name, EValue: value, Traceback: traceback})
	}
	exit := frame.Record{Kind: frame.KindExit, Payload: []byte(`{"reason":"closed"}`)}
	gap := frame.Record{Kind: frame.KindGap, Payload: []byte(`{"bytes":5}`)}
	for name, c := range map[string]struct {
		records []frame.Record
		want    string
	}{
		"raised": {
			[]frame.Record{
				raised(1, "ValueError", "no", "\x1b[0;31mTraceback\x1b[0m", "line"),
				raised(1, "Other", "second"), ended(1, "error"),
			},
			`[{"type":"error","name":"ValueError","value":"no","traceback":"Traceback\nline"},
			{"type":"end_of_execution"}]`,
		},
		"without a message": {
			[]frame.Record{said(1, message.ExecuteReplyType,
				message.ExecuteReply{Status: "error", EName: "E", EValue: "v"})},
			`[{"type":"error","name":"E","value":"v","traceback":""},{"type":"end_of_execution"}]`,
		},
		"kernel died": {
			[]frame.Record{raised(1, "KernelDied", "it ran out of memory"), ended(1, "error")},
			`[{"type":"error","name":"ContextRestarting","value":"it ran out of memory",
			"traceback":""},{"type":"end_of_execution"}]`,
		},
		"aborted": {
			[]frame.Record{ended(1, "aborted")},
			`[{"type":"error","name":"ContextRestarting","traceback":"",
			"value":"the code did not run, because its context was restarted"},
			{"type":"end_of_execution"}]`,
		},
		"removed": {
			[]frame.Record{exit},
			`[{"type":"error","name":"ContextRestarting","value":"the context was removed",
			"traceback":""},{"type":"unexpected_end_of_execution"}]`,
		},
		"gap": {
			[]frame.Record{gap, ended(1, "ok")},
			`[{"type":"stderr","text":"5 bytes of output were dropped\n"},
			{"type":"end_of_execution"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &fakeNode{run: func(l *fakeLink, _ uint32, _ protocol.Execute) {
				l.records(c.records...)
			}})
			status, body := r.do("POST", "/execute", `{"code":"x"}`)
			if status != http.StatusOK {
				t.Fatal(status, body)
			}
			same(t, events(t, body), c.want)
		})
	}
}

// TestLost checks that the response is cut if the sandbox ends: clients then ask for its state.
func TestLost(t *testing.T) {
	lost, _ := json.Marshal(protocol.Lost{Reason: "deleted"})
	failed := said(1, message.ErrorType, message.Error{EName: "SandboxLost", EValue: "deleted"})
	for name, end := range map[string]func(l *fakeLink){
		"an event": func(l *fakeLink) {
			l.control(protocol.Reply{Event: protocol.EventLost, Ch: 1, Params: lost})
		},
		"an error of the cell": func(l *fakeLink) { l.records(failed, ended(1, "error")) },
		"the link":             func(l *fakeLink) { _ = l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &fakeNode{run: func(l *fakeLink, cell uint32, _ protocol.Execute) {
				l.records(began(cell))
				end(l)
			}})
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("the response ended with %v", p)
				}
			}()
			r.serve(context.Background(), newLiveResponse(), "POST", "/execute", `{"code":"x"}`)
		})
	}
}

// TestInvalid checks the answers to requests that are refused.
func TestInvalid(t *testing.T) {
	none := fault.Invalid("op", "language", "there is no language")
	gone := fault.New(fault.NotFound, "op", "there is no such session")
	channel := &fault.Error{Kind: fault.NotFound, Op: "op", Field: "channel"}
	for name, c := range map[string]struct {
		path, body string
		refuse     map[string]error
		status     int
		text       string
	}{
		"both": {
			"/execute", `{"code":"x","context_id":"k1","language":"python"}`, nil, 400,
			"context_id or language",
		},
		"no JSON":    {"/execute", `{`, nil, 400, "not a JSON object"},
		"wrong type": {"/execute", `{"code":1}`, nil, 400, "code"},
		"long code": {
			"/execute", `{"code":"` + strings.Repeat("a", protocol.MaxCode+1) + `"}`, nil, 413, "code",
		},
		"long body": {"/execute", strings.Repeat(" ", maxBody+1), nil, 413, "bytes"},
		"no kernel": {
			"/execute", `{"code":"x","language":" R "}`,
			map[string]error{protocol.OpChannelOpen: none},
			500, `unknown kernel "r"`,
		},
		"no kernel of a context": {
			"/contexts", `{"language":"r"}`,
			map[string]error{protocol.OpChannelOpen: none},
			500,
			`unknown kernel "r"`,
		},
		"no context": {
			"/execute", `{"code":"x","context_id":"../x"}`, nil, 404, "does not exist",
		},
		"removed context": {
			"/execute", `{"code":"x","context_id":"k7"}`,
			map[string]error{protocol.OpAttach: channel},
			404, "k7",
		},
		"no folder": {"/contexts", `{"cwd":"/nope"}`, nil, 400, "cwd: there is no such folder"},
		"a file":    {"/contexts", `{"cwd":"/file"}`, nil, 400, "cwd: this is not a folder"},
		"a path":    {"/contexts", `{"cwd":"../x"}`, nil, 400, "path"},
		"a process": {"/contexts/p1/restart", "", nil, 404, "p1"},
		"gone": {
			"/execute", `{"code":"x"}`,
			map[string]error{protocol.OpChannelOpen: gone},
			502,
			`"sandboxId":"iabc"`,
		},
		"gone with its contexts": {
			"/contexts/k1/restart", "", map[string]error{protocol.OpChannelList: gone}, 502, `"code":502`,
		},
		"no node": {
			"/execute", `{"code":"x"}`,
			map[string]error{"open": fault.New(fault.Unavailable, "op", "no node")},
			503, "no node",
		},
		"full": {
			"/execute", `{"code":"x"}`,
			map[string]error{protocol.OpExecute: fault.New(fault.Exhausted, "op", "queue")},
			429, "queue",
		},
		"wrong name": {
			"/execute", `{"code":"x","env_vars":{"a b":""}}`, nil, 400, "env_vars",
		},
		"zero byte": {"/execute", `{"code":"x","env_vars":{"A":"\u0000"}}`, nil, 400, "zero byte"},
		"no path":   {"/nothing", ``, nil, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &fakeNode{refuse: c.refuse, files: map[string]bool{"/file": false}})
			status, body := r.do("POST", c.path, c.body)
			if status != c.status || !strings.Contains(body, c.text) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	many := map[string]string{}
	for i := range maxVars + 1 {
		many[fmt.Sprint("A", i)] = ""
	}
	if err := checkEnvironment(many); !fault.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
	large := map[string]string{"A": strings.Repeat("a", maxVarBytes)}
	if err := checkEnvironment(large); !fault.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
}

// TestDisconnect checks that code whose client has gone is interrupted by its number, and that the
// link stays until the code has ended.
func TestDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped protocol.Interrupt
		n := &fakeNode{
			run: func(l *fakeLink, cell uint32, _ protocol.Execute) { l.records(began(cell)) },
			interrupt: func(l *fakeLink, p protocol.Interrupt) {
				stopped = p
				time.AfterFunc(time.Second, func() {
					l.records(printed(1, frame.KindStdout, "late"), ended(1, "error"))
				})
			},
		}
		r := newRig(t, n)
		ctx, leave := context.WithCancel(context.Background())
		w := newLiveResponse()
		go r.serve(ctx, w, "POST", "/execute", `{"code":"x"}`)
		synctest.Wait()
		if got := <-w.lines; got != "OK" {
			t.Errorf("the response begins with %q", got)
		}
		if got := <-w.lines; !strings.Contains(got, "number_of_executions") {
			t.Error(got)
		}
		leave()
		begin := time.Now()
		r.done.Wait()
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the execution ended after %v", took)
		}
		if stopped.Cell != 1 || stopped.GraceMS == 0 {
			t.Errorf("the interrupt is %+v", stopped)
		}
		if len(w.lines) != 0 {
			t.Errorf("the response continued: %q", <-w.lines)
		}
	})
}

// TestAbandon checks that code which cannot be interrupted is followed for a bounded time.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &fakeNode{})
		ctx, leave := context.WithCancel(context.Background())
		go r.serve(ctx, newLiveResponse(), "POST", "/execute", `{"code":"x"}`)
		synctest.Wait()
		leave()
		begin := time.Now()
		r.done.Wait()
		if took := time.Since(begin); took != abandonTimeout {
			t.Errorf("the execution ended after %v", took)
		}
	})
}

// TestKeepAlive checks that the header is sent at once and that a quiet stream is kept alive.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNode{run: func(l *fakeLink, cell uint32, _ protocol.Execute) {
			time.AfterFunc(12*time.Second, func() { l.records(began(cell), ended(cell, "ok")) })
		}}
		r := newRig(t, n)
		begin := time.Now()
		w := newLiveResponse()
		go r.serve(context.Background(), w, "POST", "/execute", `{"code":"x"}`)
		for _, want := range []struct {
			after time.Duration
			text  string
		}{
			{0, "OK"},
			{5 * time.Second, `{"type":"keepalive"}` + "\n"},
			{10 * time.Second, `{"type":"keepalive"}` + "\n"},
			{12 * time.Second, `{"type":"number_of_executions","execution_count":1}` + "\n" +
				`{"type":"end_of_execution"}` + "\n"},
		} {
			if got := <-w.lines; got != want.text || time.Since(begin) != want.after {
				t.Errorf("%q after %v, want %q after %v", got, time.Since(begin), want.text, want.after)
			}
		}
		r.done.Wait()
	})
}

// TestRemovedContext checks the end of an execution whose context is removed meanwhile, and that any
// other end of the output cuts the response.
func TestRemovedContext(t *testing.T) {
	e := newExecution(context.Background(), nil)
	go e.outputEnded(fault.New(fault.KernelDied, "x", "the kernel has ended"))
	same(t, events(t, string(<-e.batches)), `[{"type":"error","name":"ContextRestarting",
		"value":"the context was removed","traceback":""},
		{"type":"unexpected_end_of_execution"}]`)
	if e.outputEnded(fault.New(fault.SandboxLost, "x", "killed")); !fault.Is(e.failed, fault.SandboxLost) {
		t.Errorf("the response is cut with %v", e.failed)
	}
}

// TestShortExecution checks that the client gets the header and the count of executions together
// with the first output, unless it is late, and the end of the code with the end of the response.
func TestShortExecution(t *testing.T) {
	print := func(cell uint32) frame.Record { return printed(cell, frame.KindStdout, "a") }
	for name, c := range map[string]struct {
		late   time.Duration
		output func(cell uint32) frame.Record
		want   int64 // flushes
	}{
		"output":        {0, print, 1},
		"late output":   {time.Second, print, 2},
		"a result":      {0, resulted, 0},
		"a late result": {time.Second, resulted, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNode{run: func(l *fakeLink, cell uint32, _ protocol.Execute) {
					l.records(began(cell))
					time.AfterFunc(headDelay/2+c.late, func() {
						l.records(c.output(cell))
						time.AfterFunc(headDelay/4, func() { l.records(ended(cell, "ok")) })
					})
				}}
				r := newRig(t, n)
				w := newLiveResponse()
				r.serve(context.Background(), w, "POST", "/execute", `{"code":"x"}`)
				r.done.Wait()
				if got := w.flushes.Load(); got != c.want {
					t.Errorf("%d flushes, want %d", got, c.want)
				}
			})
		})
	}
}

// TestRestart checks the end of an execution when the server stops.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &fakeNode{})
		w := newLiveResponse()
		go r.serve(context.Background(), w, "POST", "/execute", `{"code":"x"}`)
		synctest.Wait()
		r.stop()
		<-w.lines
		same(t, events(t, <-w.lines), `[{"type":"error","name":"ServerRestarting",
			"value":"the server is restarting","traceback":""},
			{"type":"unexpected_end_of_execution"}]`)
		r.done.Wait()
		if status, body := r.do("POST", "/execute", `{"code":"x"}`); status != 503 {
			t.Error(status, body)
		}
	})
}

// TestStreams checks the limit of executions of one sandbox, and that it counts those that run.
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, &fakeNode{})
		ctx, leave := context.WithCancel(context.Background())
		for range maxStreams {
			go r.serve(ctx, newLiveResponse(), "POST", "/execute", `{"code":"x"}`)
		}
		synctest.Wait()
		if status, body := r.do("POST", "/execute", `{"code":"x"}`); status != 429 {
			t.Error(status, body)
		}
		leave()
		r.done.Wait()
		r.node.run = func(l *fakeLink, cell uint32, _ protocol.Execute) {
			l.records(ended(cell, "ok"))
		}
		if status, body := r.do("POST", "/execute", `{"code":"x"}`); status != 200 {
			t.Error(status, body)
		}
	})
}

// TestEnvironment checks that variables are set and restored by silent cells around the code, and
// that their output is left out.
func TestEnvironment(t *testing.T) {
	n := &fakeNode{
		kernels: []protocol.Channel{{ID: "k1", Kind: "kernel", Language: "bash", Separate: true}},
		run: func(l *fakeLink, cell uint32, p protocol.Execute) {
			l.records(printed(cell, frame.KindStdout, p.Code), ended(cell, "ok"))
		},
	}
	r := newRig(t, n)
	status, body := r.do("POST", "/execute",
		`{"code":"x","context_id":"k1","env_vars":{"A":"1'","B":""}}`)
	if status != 200 {
		t.Fatal(status, body)
	}
	same(t, events(t, body), `[{"type":"stdout","text":"x"},{"type":"end_of_execution"}]`)
	var silent []bool
	for _, p := range n.executed {
		silent = append(silent, p.Silent)
	}
	if !slices.Equal(silent, []bool{true, false, true}) {
		t.Errorf("%+v", n.executed)
	}
	if set := n.executed[0].Code; !strings.Contains(set, `export A='1'\'''`) ||
		!strings.Contains(set, "export B=''") {
		t.Error(set)
	}
	for _, language := range []string{python, javascript, bash, java, golang, php} {
		set, restore := environment(language, map[string]string{"KEY": "\"\\\u00e4\U0001f600"})
		if !strings.Contains(set, "KEY") || !strings.Contains(restore, "KEY") ||
			strings.Contains(set+restore, "NAME") || strings.Contains(set+restore, "VALUE") {
			t.Errorf("%s: %s %s", language, set, restore)
		}
	}
	if set, restore := environment("sql", map[string]string{"A": ""}); set != "" || restore != "" {
		t.Error(set, restore)
	}
}
