package process

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// rig is a service with a fake node, behind a server of net/http.
type rig struct {
	*testing.T
	node   *fakeNode
	url    string
	client *http.Client
	base   context.CancelFunc
}

func newRig(t *testing.T) *rig { return newRigWith(t, (*httptest.Server).Start) }

func newRigWith(t *testing.T, start func(*httptest.Server)) *rig {
	node := newNode(t)
	base, cancel := context.WithCancel(context.Background())
	s := httptest.NewUnstartedServer(New(Config{
		Node: node, Log: slog.New(slog.DiscardHandler), Base: base, Call: 10 * time.Second,
		Target: func(context.Context) Target {
			return Target{Session: "s_1", Who: noderpc.Principal{Tenant: "tenant"}}
		},
	}, wire.NewSchema()))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	start(s)
	t.Cleanup(func() {
		cancel()
		s.CloseClientConnections()
		s.Close()
	})
	return &rig{T: t, node: node, url: s.URL, client: s.Client(), base: cancel}
}

// event is an event of a process, or the end of a stream.
type event struct {
	Start *struct{ PID int }
	Data  struct{ Stdout, Stderr, PTY []byte }
	End   *struct {
		ExitCode      int
		Exited        bool
		Status, Error string
	}
	KeepAlive *struct{}
	// Code is the error at the end of the stream; "ok" without one.
	Code, Message string
}

// events is a stream of a call.
type events struct {
	t      *testing.T
	body   io.ReadCloser
	cancel context.CancelFunc
}

func envelope(body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// stream calls a method with a stream of responses.
func (r *rig) stream(method, body string, header ...string) *events {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/process.Process/"+method,
		bytes.NewReader(envelope(body)))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/connect+json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	if res.StatusCode != 200 {
		r.Fatalf("%s: status %d", method, res.StatusCode)
	}
	return &events{r.T, res.Body, cancel}
}

// read returns the next event. It returns false if the connection was cut.
func (e *events) read() (event, bool) {
	var head [5]byte
	if _, err := io.ReadFull(e.body, head[:]); err != nil {
		return event{}, false
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(e.body, body); err != nil {
		return event{}, false
	}
	var m struct {
		Event event
		Error *struct{ Code, Message string }
	}
	if err := json.Unmarshal(body, &m); err != nil {
		e.t.Fatalf("%s: %v", body, err)
	}
	if head[0]&2 != 0 {
		m.Event.Code = "ok"
		if m.Error != nil {
			m.Event.Code, m.Event.Message = m.Error.Code, m.Error.Message
		}
	}
	return m.Event, true
}

// next is read for a connection that must not be cut.
func (e *events) next() event {
	e.t.Helper()
	v, ok := e.read()
	if !ok {
		e.t.Fatal("the connection was cut")
	}
	return v
}

// all describes the events until the end of the stream.
func (e *events) all() string {
	e.t.Helper()
	var b strings.Builder
	for {
		v, ok := e.read()
		switch {
		case !ok:
			return b.String() + "cut"
		case v.Code != "":
			return b.String() + v.Code
		case v.Start != nil:
			fmt.Fprintf(&b, "start %d,", v.Start.PID)
		case v.End != nil:
			fmt.Fprintf(&b, "end %d %t %s (%s),", v.End.ExitCode, v.End.Exited, v.End.Status,
				v.End.Error)
		default:
			fmt.Fprintf(&b, "%s|%s|%s,", v.Data.Stdout, v.Data.Stderr, v.Data.PTY)
		}
	}
}

// call calls a unary method and returns the body, or the code of the error.
func (r *rig) call(method, body string, header ...string) (answer, code string) {
	r.Helper()
	req, err := http.NewRequest("POST", r.url+"/process.Process/"+method, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		return "", "cut"
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	var m struct{ Code string }
	_ = json.Unmarshal(text, &m) // a result has no code
	return string(text), m.Code
}

const echo = `{"process":{"cmd":"echo"}}`

// TestStart follows a process from its start to its end.
func TestStart(t *testing.T) {
	r := newRig(t)
	e := r.stream("Start", `{"process":{"cmd":"/bin/bash","args":["-l","-c","x"],"envs":{"A":"b"},
		"cwd":"~/d"},"tag":"t","stdin":false,"later":1}`)
	if v := e.next(); v.Start == nil || v.Start.PID != 101 {
		t.Fatalf("%+v", v)
	}
	p := r.node.next()
	if o := p.open; o.Session != "s_1" || o.Kind != "process" || strings.Join(o.Argv, " ") !=
		"/bin/bash -l -c x" || o.Env["A"] != "b" || o.Cwd != "d" || o.Tag != "t" || o.Stdin {
		t.Errorf("%+v", o)
	}
	r.node.mu.Lock() // all of it in one batch
	p.records = append(p.records, []frame.Record{
		{Kind: frame.KindStdout, Payload: []byte("a")},
		{Kind: frame.KindStdout, Payload: []byte("b\xc3")},
		{Kind: frame.KindStderr, Payload: []byte("e\xe2\x82")},
		{Kind: frame.KindStdout, Payload: []byte("\xbc")},
		{Kind: frame.KindGap, Payload: []byte(`{"bytes":7}`)},
		{Kind: frame.KindExit, Payload: []byte(`{"code":3}`)},
	}...)
	r.node.notify()
	r.node.mu.Unlock()
	want := "ab||,|e|,ü||,|\uFFFD\n[sandgate: 7 bytes of output are missing]\n|," +
		"end 3 true exit status 3 (exit status 3),ok"
	if got := strings.ToValidUTF8(e.all(), "\uFFFD"); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestTerminal starts a terminal, changes its size and writes to it.
func TestTerminal(t *testing.T) {
	r := newRig(t)
	e := r.stream("Start", `{"process":{"cmd":"/bin/bash","envs":{"NO_BASH":"1"}},
		"pty":{"size":{"cols":100,"rows":30}}}`)
	p := r.node.next()
	if o := p.open; o.Kind != "terminal" || o.Cols != 100 || o.Rows != 30 || o.Stdin ||
		o.Argv[0] != "/bin/sh" {
		t.Errorf("%+v", o)
	}
	if _, code := r.call("Update",
		`{"process":{"pid":101},"pty":{"size":{"cols":9,"rows":8}}}`); code != "" || p.size.Cols != 9 {
		t.Error(code, p.size)
	}
	if _, code := r.call("SendInput",
		`{"process":{"pid":101},"input":{"pty":"aGk="}}`); code != "" || string(p.input) != "hi" {
		t.Error(code, p.input)
	}
	for body, want := range map[string]string{
		`{"process":{"pid":101},"input":{"stdin":"aGk="}}`: "internal",
		`{"process":{"pid":101}}`:                          "invalid_argument",
	} {
		if _, code := r.call("SendInput", body); code != want {
			t.Errorf("%s: %q", body, code)
		}
	}
	if _, code := r.call("CloseStdin", `{"process":{"pid":101}}`); code != "failed_precondition" {
		t.Error(code)
	}
	p.write(frame.KindRestore, `{"data":"eHg="}`) // not after a gap: the client has it all
	p.write(frame.KindStdout, "\xc3")
	p.exit(protocol.Exit{})
	if got := e.all(); got != "start 101,||\xc3,end 0 true exit status 0 (),ok" {
		t.Errorf("%q", got)
	}
}

// TestEnds checks the last event of each kind of end.
func TestEnds(t *testing.T) {
	r := newRig(t)
	for want, exit := range map[string]protocol.Exit{
		"end 0 true exit status 0 (),ok":                    {},
		"end 137 true exit status 137 (exit status 137),ok": {Code: 137},
		"end -1 false signal: killed (signal: killed),ok": {
			Code: 137, Signal: "SIGKILL", Reason: "killed",
		},
		"end -1 false signal: terminated (signal: terminated),ok": {Code: 143, Signal: "SIGTERM"},
		"end -1 false signal: killed (signal: killed: the sandbox had no memory left),ok": {
			Code: 137, Signal: "SIGKILL", Reason: "memory",
		},
		"end -1 false signal: interrupt (signal: interrupt),ok": {Code: 130, Signal: "SIGINT"},
		"cut": {Code: -1, Reason: "expired"},
	} {
		e := r.stream("Start", echo)
		e.next()
		r.node.next().exit(exit)
		if got := e.all(); got != want {
			t.Errorf("%+v: %s, want %s", exit, got, want)
		}
	}
	if e := endOf(&protocol.Exit{Code: -1, Reason: "closed"}); e.Status != "signal: killed" {
		t.Errorf("a channel that was closed: %+v", e)
	}
}

// TestRefusedStarts checks the errors of processes that cannot start.
func TestRefusedStarts(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]string{
		`{}`:                            "invalid_argument",
		`{"process":{"cmd":"missing"}}`: "invalid_argument",
		`{"process":{"cmd":"x","cwd":"/missing"}}`:    "invalid_argument",
		`{"process":{"cmd":"x","args":"not a list"}}`: "invalid_argument",
	} {
		if got := r.stream("Start", body).all(); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	v := r.stream("Start", `{"process":{"cmd":"x","cwd":"/missing"}}`).next()
	if !strings.Contains(v.Message, "cwd '/missing' does not exist") {
		t.Error(v.Message)
	}
	for header, want := range map[string]string{
		"Basic cm9vdDo=": "unimplemented", "Basic YW5ub25lOg==": "unauthenticated",
	} {
		if got := r.stream("Start", echo, "Authorization", header).all(); got != want {
			t.Errorf("%s: %s", header, got)
		}
		if _, code := r.call("List", `{}`, "Authorization", header); code != want {
			t.Errorf("%s: %s", header, code)
		}
	}
}

// TestFullSession checks the error for a session that has no place for another process. The node
// decides about places: one request is enough.
func TestFullSession(t *testing.T) {
	r := newRig(t)
	r.node.full = 1
	if got := r.stream("Start", `{"process":{"cmd":"full"}}`).all(); got != "resource_exhausted" {
		t.Error(got)
	}
	if v := r.stream("Start", `{"process":{"cmd":"full"}}`).next(); v.Start == nil {
		t.Errorf("%+v", v)
	}
}

// TestDeadline kills a process at the timeout of its request, but not when its client disconnects.
func TestDeadline(t *testing.T) {
	r := newRig(t)
	e := r.stream("Start", echo, "Connect-Timeout-Ms", "50")
	p := r.node.next()
	if got := e.all(); got != "start 101,deadline_exceeded" {
		t.Error(got)
	}
	if p.wait(); p.signals[0] != "SIGKILL" {
		t.Error(p.signals)
	}

	e = r.stream("Start", echo, "Connect-Timeout-Ms", "200")
	e.next()
	e.cancel()
	p = r.node.next()
	if p.wait(); p.signals[0] != "SIGKILL" {
		t.Error(p.signals)
	}

	e = r.stream("Start", echo)
	e.next()
	e.cancel()
	p = r.node.next()
	p.write(frame.KindStdout, "later")
	p.exit(protocol.Exit{})
	if got := r.stream("Connect", `{"process":{"pid":103}}`).all(); len(p.signals) > 0 ||
		got != "start 103,later||,end 0 true exit status 0 (),ok" {
		t.Error(p.signals, got)
	}
}

// TestConnect sends all output again, also of a process that has ended.
func TestConnect(t *testing.T) {
	r := newRig(t)
	for range 2 {
		r.stream("Start", `{"process":{"cmd":"x"},"tag":"t"}`).next()
	}
	first, second := r.node.next(), r.node.next()
	first.write(frame.KindStdout, "first")
	second.write(frame.KindStdout, "second")
	second.exit(protocol.Exit{})
	e := r.stream("Connect", `{"process":{"tag":"t"}}`) // the one that runs
	first.exit(protocol.Exit{})
	if got := e.all(); got != "start 101,first||,end 0 true exit status 0 (),ok" {
		t.Error(got)
	}
	want := "start 102,second||,end 0 true exit status 0 (),ok"
	if got := r.stream("Connect", `{"process":{"tag":"t"}}`).all(); got != want {
		t.Error(got) // the newest
	}
	for body, want := range map[string]string{
		`{"process":{"pid":9}}`: "not_found", `{"process":{"tag":"u"}}`: "not_found",
		`{}`: "invalid_argument",
	} {
		if got := r.stream("Connect", body).all(); got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	if got := r.stream("Connect", `{"process":{"pid":9}}`, "Connect-Timeout-Ms", "1").all(); got !=
		"not_found" && got != "deadline_exceeded" {
		t.Error(got)
	}
}

// TestControl sends input and signals to a process, and lists it.
func TestControl(t *testing.T) {
	r := newRig(t)
	r.stream("Start", `{"process":{"cmd":"cat","args":["-"],"cwd":"/d"},"tag":"t"}`).next()
	p := r.node.next()
	body, _ := r.call("List", `{}`)
	var list struct{ Processes []wire.ProcessInfo }
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Processes) != 1 ||
		list.Processes[0].PID != 101 || *list.Processes[0].Tag != "t" ||
		list.Processes[0].Config.Cmd != "cat" || *list.Processes[0].Config.Cwd != "/d" {
		t.Errorf("%s %v", body, err)
	}
	if _, code := r.call("SendInput",
		`{"process":{"tag":"t"},"input":{"stdin":"aGk="}}`); code != "" {
		t.Error(code)
	}
	e := r.stream("StreamInput", "") // an empty stream
	if v := e.next(); v.Code != "invalid_argument" {
		t.Errorf("%+v", v)
	}
	for _, body := range []string{
		`{"process":{"pid":101},"signal":"SIGNAL_SIGTERM"}`,
		`{"process":{"pid":101},"signal":"SIGNAL_SIGKILL"}`,
	} {
		if _, code := r.call("SendSignal", body); code != "" {
			t.Error(code)
		}
	}
	if got := strings.Join(p.signals, " "); got != "SIGTERM SIGKILL" {
		t.Error(got)
	}
	for range 2 { // the second one has no effect
		if _, code := r.call("CloseStdin", `{"process":{"pid":101}}`); code != "" {
			t.Error(code)
		}
	}
	if string(p.input) != "hi" || !p.view.InputEnded {
		t.Errorf("%q %t", p.input, p.view.InputEnded)
	}
	for method, body := range map[string]string{
		"SendInput": `"input":{"stdin":"aGk="}`, "Update": `"pty":{"size":{"cols":1,"rows":1}}`,
		"SendSignal": `"signal":"SIGNAL_UNSPECIFIED"`,
	} {
		want := map[string]string{
			"SendInput": "internal", "Update": "failed_precondition", "SendSignal": "invalid_argument",
		}[method]
		if _, code := r.call(method, `{"process":{"pid":101},`+body+`}`); code != want {
			t.Errorf("%s: %s", method, code)
		}
	}
	p.exit(protocol.Exit{})
	for method, body := range map[string]string{
		"SendInput": `"input":{"stdin":"aGk="}`, "Update": `"pty":{"size":{"cols":1,"rows":1}}`,
		"SendSignal": `"signal":"SIGNAL_SIGKILL"`, "CloseStdin": `"later":1`,
	} {
		if _, code := r.call(method, `{"process":{"pid":101},`+body+`}`); code != "not_found" {
			t.Errorf("%s: %s", method, code)
		}
	}
	if body, _ := r.call("List", `{}`); strings.Contains(body, "101") {
		t.Error(body)
	}
}

// TestStreamInput sends a stream of input.
func TestStreamInput(t *testing.T) {
	r := newRig(t)
	r.stream("Start", echo).next()
	p := r.node.next()
	var body []byte
	for _, m := range []string{
		`{"start":{"process":{"pid":101}}}`, `{"data":{"input":{"stdin":"YQ=="}}}`, `{"keepalive":{}}`,
		`{"data":{"input":{"stdin":"Yg=="}}}`,
	} {
		body = append(body, envelope(m)...)
	}
	res, err := r.client.Post(r.url+"/process.Process/StreamInput", "application/connect+json",
		bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	e := &events{t: t, body: res.Body}
	if first, last := e.next(), e.next(); first.Code != "" || last.Code != "ok" ||
		string(p.input) != "ab" {
		t.Errorf("%+v %+v %q", first, last, p.input)
	}
}

// TestHTTP2 streams output and input over HTTP/2. Input arrives while the client still sends.
func TestHTTP2(t *testing.T) {
	r := newRigWith(t, func(s *httptest.Server) {
		s.EnableHTTP2 = true
		s.StartTLS()
	})
	e := r.stream("Start", echo)
	e.next()
	p := r.node.next()
	p.write(frame.KindStdout, "a")
	if v := e.next(); string(v.Data.Stdout) != "a" {
		t.Errorf("%+v", v)
	}
	body, input := io.Pipe()
	req, err := http.NewRequest("POST", r.url+"/process.Process/StreamInput", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/connect+json")
	sent := make(chan error, 1)
	go func() {
		res, err := r.client.Do(req)
		if err == nil && res.ProtoMajor != 2 {
			err = fmt.Errorf("the protocol is %s", res.Proto)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
		}
		sent <- err
	}()
	for _, m := range []string{
		`{"start":{"process":{"pid":101}}}`, `{"data":{"input":{"stdin":"YQ=="}}}`,
	} {
		if _, err := input.Write(envelope(m)); err != nil {
			t.Fatal(err)
		}
	}
	p.wait()
	_ = input.Close()
	if err := <-sent; err != nil || string(p.input) != "a" {
		t.Errorf("%v %q", err, p.input)
	}
	r.node.cut(fault.New(fault.SandboxLost, "x", "it was killed"))
	if got := e.all(); got != "cut" {
		t.Error(got)
	}
}

// TestLostLink loses the link to the node twice. The stream continues without a hole.
func TestLostLink(t *testing.T) {
	r := newRig(t)
	e := r.stream("Start", echo)
	e.next()
	p := r.node.next()
	for i := range 3 {
		p.write(frame.KindStdout, fmt.Sprint(i))
		if v := e.next(); string(v.Data.Stdout) != fmt.Sprint(i) {
			t.Errorf("%+v", v)
		}
		if i < 2 {
			r.node.cut(fault.New(fault.Unavailable, "x", "the node restarts"))
			r.node.heal()
		}
	}
	p.exit(protocol.Exit{})
	if got := e.all(); got != "end 0 true exit status 0 (),ok" || r.node.attached < 3 {
		t.Error(got, r.node.attached)
	}
}

// TestCut cuts streams and calls when the sandbox or the gateway has ended.
func TestCut(t *testing.T) {
	r := newRig(t)
	e := r.stream("Start", echo)
	e.next()
	r.node.cut(fault.New(fault.NotFound, "x", "there is no such session"))
	if got := e.all(); got != "cut" {
		t.Error(got)
	}
	if _, code := r.call("List", `{}`); code != "cut" {
		t.Error(code)
	}
	r.node.heal()
	e = r.stream("Start", echo)
	e.next()
	r.base()
	if got := e.all(); got != "cut" {
		t.Error(got)
	}
}

// TestKeepAlive sends an event when there is no output.
func TestKeepAlive(t *testing.T) {
	r := newRig(t)
	e := r.stream("Start", echo, "Keepalive-Ping-Interval", "1")
	e.next()
	if v := e.next(); v.KeepAlive == nil {
		t.Errorf("%+v", v)
	}
}

// TestStreamsAreBounded refuses one stream more than a sandbox may have.
func TestStreamsAreBounded(t *testing.T) {
	s := &Service{streams: map[string]int{}}
	var last func()
	for range maxStreams {
		release, err := s.acquire("s")
		if err != nil {
			t.Fatal(err)
		}
		last = release
	}
	if _, err := s.acquire("s"); !fault.Is(err, fault.Exhausted) {
		t.Error(err)
	}
	if _, err := s.acquire("other"); err != nil {
		t.Error(err)
	}
	last()
	last() // it counts once
	if _, err := s.acquire("s"); err != nil || len(s.streams) != 2 {
		t.Error(err, s.streams)
	}
}

// TestInvalidMessages sends each method a wrong codec, a large and a cut message.
func TestInvalidMessages(t *testing.T) {
	r := newRig(t)
	streams := "Start Connect StreamInput"
	for method := range strings.FieldsSeq(streams + " List SendInput CloseStdin SendSignal Update") {
		prefix, pack := "application/", func(s string) []byte { return []byte(s) }
		if strings.Contains(streams, method) {
			prefix, pack = "application/connect+", envelope
		}
		cut := pack(`{"a":1}`)
		for _, c := range []struct {
			contentType string
			body        []byte
			want        string
		}{
			{prefix + "yaml", pack("{}"), "unimplemented"},
			{
				prefix + "json", pack(`{"a":"` + strings.Repeat("x", wire.MaxMessage) + `"}`),
				"resource_exhausted",
			},
			{prefix + "json", cut[:len(cut)-1], "invalid_argument"},
			{prefix + "proto", pack("\x0a\x05"), "invalid_argument"},
		} {
			res, err := r.client.Post(r.url+"/process.Process/"+method, c.contentType,
				bytes.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if !bytes.Contains(body, []byte(`"code":"`+c.want+`"`)) {
				t.Errorf("%s as %s: %d %q", method, c.contentType, res.StatusCode, body)
			}
		}
	}
}
