package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/sandgate/sandgate/protocol/fault"
)

// echo answers every method with an empty response.
func echo(s *Schema) map[string]*Service {
	p, f := NewService(s, ProcessService), NewService(s, FilesystemService)
	ServerStream(p, "Start", func(_ context.Context, _ http.Header, req *StartRequest,
		send func(*StartResponse) error,
	) error {
		if req.Process != nil && req.Process.Cmd == "missing" {
			return fault.New(fault.NotFound, "x", "there is no such process")
		}
		return send(&StartResponse{Event: &ProcessEvent{Start: &ProcessStarted{PID: 7}}})
	})
	ServerStream(p, "Connect", func(_ context.Context, _ http.Header, _ *ConnectRequest,
		send func(*ConnectResponse) error,
	) error {
		return send(&ConnectResponse{})
	})
	unary[ListRequest, ListResponse](p, "List")
	unary[SendInputRequest, SendInputResponse](p, "SendInput")
	unary[CloseStdinRequest, CloseStdinResponse](p, "CloseStdin")
	unary[SendSignalRequest, SendSignalResponse](p, "SendSignal")
	unary[UpdateRequest, UpdateResponse](p, "Update")
	ClientStream(p, "StreamInput", func(_ context.Context, _ http.Header,
		next func() (*StreamInputRequest, error),
	) (*StreamInputResponse, error) {
		for {
			if _, err := next(); err == io.EOF {
				return &StreamInputResponse{}, nil
			} else if err != nil {
				return nil, err
			}
		}
	})
	unary[StatRequest, StatResponse](f, "Stat")
	unary[MakeDirRequest, MakeDirResponse](f, "MakeDir")
	unary[MoveRequest, MoveResponse](f, "Move")
	unary[ListDirRequest, ListDirResponse](f, "ListDir")
	unary[RemoveRequest, RemoveResponse](f, "Remove")
	unary[CreateWatcherRequest, CreateWatcherResponse](f, "CreateWatcher")
	unary[GetWatcherEventsRequest, GetWatcherEventsResponse](f, "GetWatcherEvents")
	unary[RemoveWatcherRequest, RemoveWatcherResponse](f, "RemoveWatcher")
	ServerStream(f, "WatchDir", func(_ context.Context, _ http.Header, _ *WatchDirRequest,
		send func(*WatchDirResponse) error,
	) error {
		return send(&WatchDirResponse{Start: &WatchStarted{}})
	})
	return map[string]*Service{ProcessService: p, FilesystemService: f}
}

func unary[Req, Res any](s *Service, name string) {
	Unary(s, name, func(context.Context, http.Header, *Req) (*Res, error) { return new(Res), nil })
}

type answer struct {
	status int
	header http.Header
	body   string
}

// code returns the code of Connect in the body of an answer or in its last envelope.
func (a answer) code() string {
	body := []byte(a.body)
	for len(body) > 5 && body[0] != '{' {
		n := 5 + int(binary.BigEndian.Uint32(body[1:]))
		if n == len(body) {
			body = body[5:]
			break
		}
		body = body[n:]
	}
	var e struct {
		Code  string
		Error struct{ Code string }
	}
	_ = json.Unmarshal(body, &e) // a body of another form has no code
	return e.Code + e.Error.Code
}

func call(s http.Handler, path, contentType string, body []byte, header ...string) answer {
	r := httptest.NewRequest("POST", path, bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return answer{w.Code, w.Result().Header, w.Body.String()}
}

func envelope(body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// TestEveryMethod calls each method of both services as JSON and as protobuf, with unknown fields,
// and with a wrong codec, an oversized and a truncated message.
func TestEveryMethod(t *testing.T) {
	schema := NewSchema()
	for service, s := range echo(schema) {
		if m := s.Missing(); len(m) > 0 {
			t.Errorf("%v are missing", m)
		}
		methods := schema.services[service].Methods()
		for i := range methods.Len() {
			d := methods.Get(i)
			path := "/" + service + "/" + string(d.Name())
			stream := d.IsStreamingClient() || d.IsStreamingServer()
			prefix, pack := "application/", func(s string) []byte { return []byte(s) }
			if stream {
				prefix, pack = "application/connect+", envelope
			}
			// Field 1000 is unknown: a string of two bytes.
			unknown := map[string]string{"json": `{"later":{"a":[1]}}`, "proto": "\xc2\x3e\x02hi"}
			for codec, body := range unknown {
				if a := call(s, path, prefix+codec, pack(body)); a.status != 200 || a.code() != "" {
					t.Errorf("%s as %s: %+v", path, codec, a)
				}
			}
			if a := call(s, path, prefix+"yaml", pack("{}")); a.status != 415 ||
				a.code() != "unimplemented" || a.header.Get("Accept-Post") == "" {
				t.Errorf("%s with a wrong codec: %+v", path, a)
			}
			large := `{"later":"` + strings.Repeat("x", MaxMessage) + `"}`
			if a := call(s, path, prefix+"json", pack(large)); a.code() != "resource_exhausted" {
				t.Errorf("%s with a large message: %d %.200q", path, a.status, a.body)
			}
			cut := pack("{}")
			cut = cut[:len(cut)-1]
			if a := call(s, path, prefix+"json", cut); a.code() != "invalid_argument" {
				t.Errorf("%s with a truncated message: %+v", path, a)
			}
			if a := call(s, path, prefix+"json", cut[:1]); a.code() != "invalid_argument" {
				t.Errorf("%s with a truncated envelope: %+v", path, a)
			}
			if a := call(s, path, prefix+"json", pack("{}"), "Connect-Timeout-Ms",
				"soon"); a.code() != "invalid_argument" {
				t.Errorf("%s with a wrong timeout: %+v", path, a)
			}
			r := httptest.NewRecorder()
			s.ServeHTTP(r, httptest.NewRequest("GET", path, nil))
			if r.Code != 405 || r.Header().Get("Allow") != "POST" {
				t.Errorf("GET %s: %d", path, r.Code)
			}
		}
		if a := call(s, "/"+service+"/Other", "application/json", nil); a.status != 404 ||
			a.code() != "unimplemented" {
			t.Errorf("an unknown method: %+v", a)
		}
	}
}

// TestServerStream checks the bytes of a stream, and that an error is in its last envelope.
func TestServerStream(t *testing.T) {
	s := echo(NewSchema())[ProcessService]
	a := call(s, "/process.Process/Start", "application/connect+json", envelope("{}"))
	first := a.body[5 : 5+binary.BigEndian.Uint32([]byte(a.body)[1:])]
	var got struct {
		Event struct{ Start struct{ PID int } }
	}
	if err := json.Unmarshal([]byte(first), &got); err != nil || got.Event.Start.PID != 7 {
		t.Errorf("%q %v", first, err)
	}
	if !strings.HasSuffix(a.body, "\x02\x00\x00\x00\x02{}") {
		t.Errorf("the end is %q", a.body)
	}
	a = call(s, "/process.Process/Start", "application/connect+json",
		envelope(`{"process":{"cmd":"missing"}}`))
	if a.status != 200 || a.code() != "not_found" || a.body[0] != 2 {
		t.Errorf("%+v", a)
	}
}

// TestLast counts how often a stream is flushed: the last response goes with the end of the stream.
func TestLast(t *testing.T) {
	for _, last := range []bool{false, true} {
		s := NewService(NewSchema(), ProcessService)
		ServerStream(s, "Start", func(ctx context.Context, _ http.Header, _ *StartRequest,
			send func(*StartResponse) error,
		) error {
			if err := send(&StartResponse{}); err != nil {
				return err
			}
			if last {
				Last(ctx)
			}
			return send(&StartResponse{})
		})
		w := &flushed{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("POST", "/process.Process/Start", bytes.NewReader(envelope("{}")))
		r.Header.Set("Content-Type", "application/connect+json")
		s.ServeHTTP(w, r)
		if want := 3; !last && w.count != want || last && w.count >= want-1 {
			t.Errorf("last is %v: the stream was flushed %d times", last, w.count)
		}
		if body := w.Body.String(); strings.Count(body, "{}") != 3 {
			t.Errorf("last is %v: %q", last, body)
		}
	}
}

// flushed counts how often a response is flushed.
type flushed struct {
	*httptest.ResponseRecorder
	count int
}

func (f *flushed) Flush() { f.count++ }

// TestGzip sends a compressed request and asks for a compressed response.
func TestGzip(t *testing.T) {
	s := NewService(NewSchema(), FilesystemService)
	Unary(s, "Remove", func(_ context.Context, h http.Header, r *RemoveRequest) (*RemoveResponse,
		error,
	) {
		if r.Path != "/x" || h.Get("X-Test") != "1" {
			t.Errorf("%+v %v", r, h)
		}
		return &RemoveResponse{}, nil
	})
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	_, _ = z.Write([]byte(`{"path":"/x"}`))
	_ = z.Close()
	a := call(s, "/filesystem.Filesystem/Remove", "application/json", body.Bytes(),
		"Content-Encoding", "gzip", "X-Test", "1")
	if a.status != 200 {
		t.Errorf("%+v", a)
	}
	body.Reset()
	z = gzip.NewWriter(&body)
	_, _ = z.Write([]byte(`{"path":"` + strings.Repeat("x", MaxMessage) + `"}`))
	_ = z.Close()
	a = call(s, "/filesystem.Filesystem/Remove", "application/json", body.Bytes(),
		"Content-Encoding", "gzip")
	if a.code() != "resource_exhausted" {
		t.Errorf("a message that is large when it is decompressed: %+v", a)
	}
	a = call(s, "/filesystem.Filesystem/Remove", "application/json", []byte("x"),
		"Content-Encoding", "other")
	if a.code() != "unimplemented" {
		t.Errorf("an unknown compression: %+v", a)
	}
}

// TestTimeout checks that a handler gets the client's timeout.
func TestTimeout(t *testing.T) {
	s := NewService(NewSchema(), ProcessService)
	Unary(s, "List", func(ctx context.Context, _ http.Header, _ *ListRequest) (*ListResponse, error) {
		if _, limited := ctx.Deadline(); !limited {
			return &ListResponse{}, nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for _, header := range []string{"Other", "Connect-Timeout-Ms"} {
		a := call(s, "/process.Process/List", "application/json", []byte("{}"), header, "0")
		if a.status != 200 {
			t.Errorf("%s is 0: %+v", header, a)
		}
	}
	a := call(s, "/process.Process/List", "application/json", []byte("{}"),
		"Connect-Timeout-Ms", "1")
	if a.status != 504 || a.code() != "deadline_exceeded" {
		t.Errorf("%+v", a)
	}
}

// TestRoundTrip converts messages with each kind of field to both forms and back.
func TestRoundTrip(t *testing.T) {
	now, text, off, pid := time.Unix(1700000000, 5), "", false, uint32(3)
	for _, v := range []struct {
		service, method string
		value           any
		json            string
	}{
		{
			ProcessService, "Start", &StartRequest{
				Process: &ProcessConfig{
					Cmd: "a", Args: []string{"b", "ü"}, Envs: map[string]string{"K": "v"}, Cwd: &text,
				},
				PTY: &PTY{Size: &Size{80, 24}}, Tag: &text, Stdin: &off,
			}, `{"process":{"cmd":"a","args":["b","ü"],"envs":{"K":"v"},"cwd":""},
				"pty":{"size":{"cols":80,"rows":24}},"tag":"","stdin":false}`,
		},
		{
			ProcessService, "SendSignal",
			&SendSignalRequest{Process: &Selector{PID: &pid}, Signal: SignalKill},
			`{"process":{"pid":3},"signal":"SIGNAL_SIGKILL"}`,
		},
		{
			ProcessService, "SendInput",
			&SendInputRequest{Process: &Selector{Tag: &text}, Input: &Input{PTY: []byte{}}},
			`{"process":{"tag":""},"input":{"pty":""}}`,
		},
		{
			FilesystemService, "GetWatcherEvents", &GetWatcherEventsResponse{
				Events: []*FilesystemEvent{{Name: "n", Type: EventChmod, Entry: &EntryInfo{
					Name: "n", Type: FileTypeFile, Path: "/n", Size: 1 << 40, Mode: 420,
					Permissions: "-rw-r--r--", Owner: "user", Group: "user", ModifiedTime: &now,
					SymlinkTarget: &text, Metadata: map[string]string{"a": "b"},
				}}},
			}, `{"events":[{"name":"n","type":"EVENT_TYPE_CHMOD","entry":{"name":"n",
				"type":"FILE_TYPE_FILE","path":"/n","size":"1099511627776","mode":420,
				"permissions":"-rw-r--r--","owner":"user","group":"user",
				"modifiedTime":"2023-11-14T22:13:20.000000005Z","symlinkTarget":"",
				"metadata":{"a":"b"}}}]}`,
		},
	} {
		d := NewSchema().method(v.service, v.method)
		message := d.Input()
		if strings.HasSuffix(reflect.TypeOf(v.value).String(), "Response") {
			message = d.Output()
		}
		m := newMapper(reflect.TypeOf(v.value).Elem(), message)
		for _, c := range codecs(m, m) {
			data, err := c.Marshal(v.value)
			if err != nil {
				t.Fatal(err)
			}
			got := reflect.New(reflect.TypeOf(v.value).Elem())
			if err := c.Unmarshal(data, got.Interface()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Interface(), v.value) {
				t.Errorf("%s as %s became %s", v.method, c.name, data)
			}
			reference, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(
				m.encode(reflect.ValueOf(v.value).Elem()))
			if err != nil {
				t.Fatal(err)
			}
			var have, want any
			if c.name == "json" && (json.Unmarshal(data, &have) != nil ||
				json.Unmarshal(reference, &want) != nil || !reflect.DeepEqual(have, want)) {
				t.Errorf("%s is %s, protojson has %s", v.method, data, reference)
			}
			if c.name == "json" && (json.Unmarshal(data, &have) != nil ||
				json.Unmarshal([]byte(v.json), &want) != nil || !reflect.DeepEqual(have, want)) {
				t.Errorf("%s is %s", v.method, data)
			}
		}
	}
}

// TestZeroFields checks that JSON has fields that are zero, and names that are not UTF-8.
func TestZeroFields(t *testing.T) {
	s := NewSchema()
	m := newMapper(reflect.TypeFor[StartResponse](), s.method(ProcessService, "Start").Output())
	data, err := codecs(m, m)[0].Marshal(&StartResponse{
		Event: &ProcessEvent{End: &ProcessEnd{Exited: true, Status: "a\xff"}},
	})
	if err != nil || !bytes.Contains(data, []byte(`"exitCode"`)) ||
		!bytes.Contains(data, []byte("a\uFFFD")) || bytes.Contains(data, []byte("error")) {
		t.Errorf("%s %v", data, err)
	}
}

// TestMapperRefuses panics for a struct that does not match its message.
func TestMapperRefuses(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a wrong struct was accepted")
		}
	}()
	newMapper(reflect.TypeFor[struct{ Other string }](),
		NewSchema().method(FilesystemService, "Stat").Input())
}

// TestNumbers compares a message with bytes that another implementation has written.
func TestNumbers(t *testing.T) {
	d := NewSchema().method(ProcessService, "Start").Output()
	msg := dynamicpb.NewMessage(d)
	// event.end: exit_code -1 as zigzag, status "s".
	if err := proto.Unmarshal([]byte("\x0a\x07\x1a\x05\x08\x01\x1a\x01s"), msg); err != nil {
		t.Fatal(err)
	}
	var res StartResponse
	newMapper(reflect.TypeFor[StartResponse](), d).decode(msg, reflect.ValueOf(&res).Elem())
	if e := res.Event.End; e == nil || e.ExitCode != -1 || e.Status != "s" {
		t.Errorf("%+v", res.Event)
	}
}

// TestError checks the code of each kind.
func TestError(t *testing.T) {
	for _, row := range fault.Table() {
		var c *connect.Error
		if !errors.As(Error(fault.New(row.Kind, "x", "secret")), &c) {
			t.Fatalf("%s has no code", row.Kind)
		}
		if (c.Code() == connect.CodeInternal) != (row.HTTP == 500 || row.Kind == fault.KernelDied) {
			t.Errorf("%s has the code %s", row.Kind, c.Code())
		}
		if row.Kind == fault.Internal && strings.Contains(c.Message(), "secret") {
			t.Error("an internal error shows its message")
		}
	}
	if Error(nil) != nil {
		t.Error("nil is an error")
	}
	exists := Error(fault.New(fault.Conflict, "x", "it exists").For(fault.CauseExists))
	if connect.CodeOf(exists) != connect.CodeAlreadyExists || Error(exists) != exists {
		t.Error(exists)
	}
}
