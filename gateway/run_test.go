package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

func (w *world) run(token, accept, body string) *http.Response {
	w.t.Helper()
	return w.do("POST", "/v1/run", token, strings.NewReader(body), func(r *http.Request) {
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
	})
}

// lines runs code and returns the events.
func (w *world) lines(body string) []run.Event {
	w.t.Helper()
	r := w.run(tokenAll, "application/x-ndjson", body)
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/x-ndjson" {
		w.t.Fatalf("%d %s", r.StatusCode, read(w.t, r))
	}
	var out []run.Event
	for line := range strings.Lines(read(w.t, r)) {
		var e run.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.t.Fatalf("%q: %v", line, err)
		}
		if e.Type != "keepalive" {
			out = append(out, e)
		}
	}
	return out
}

func types(events []run.Event) string {
	var t []string
	for _, e := range events {
		t = append(t, e.Type)
	}
	return strings.Join(t, " ")
}

func (w *world) deleted(n int) {
	w.t.Helper()
	w.fake.await(w.t.(*testing.T), "the sessions' deletion",
		func() bool { return w.fake.deleted == n && w.fake.links == 0 })
}

func TestRunJSON(t *testing.T) {
	w := newWorld(t, nil)
	r := w.run(
		tokenRun, "", `{"language":"python","code":"print:hello;foreign;stderr:oops;display;result;error:bad;exit:3","files":[{"path":"a.txt","content":"text"},{"path":"b","content":"aGk=","encoding":"base64"}]}`)
	var out protocol.RunResult
	if err := json.Unmarshal([]byte(read(t, r)), &out); err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != 200 || out.Stdout != "hello" || out.Stderr != "oops" ||
		out.Status != "error" || len(out.Results) != 2 ||
		out.Error == nil || out.Error.EValue != "bad" || out.ExitCode == nil ||
		*out.ExitCode != 3 || out.Session != "s1" || out.Cell != 1 || out.ElapsedMS != 1.5 {
		t.Errorf("%+v", out)
	}
	a, _ := w.file("s1/a.txt")
	if b, _ := w.file("s1/b"); b != "hi" || a != "text" {
		t.Errorf("files: %q and %q", a, b)
	}
	w.deleted(1)
}

func TestRunEvents(t *testing.T) {
	w := newWorld(t, nil)
	got := w.lines(`{"code":"print:a;stderr:b;display;result;error:c"}`)
	if types(got) != "start stdout stderr display result error done" {
		t.Errorf("%s", types(got))
	}
	r := w.run(tokenAll, "text/event-stream", `{"code":"print:<a> & b"}`)
	body := read(t, r)
	want := "event: start\ndata: {\"type\":\"start\",\"session\":\"s2\",\"channel\":\"k1\",\"cell\":1}\n\nevent: stdout\ndata: {\"type\":\"stdout\",\"text\":\"<a> & b\"}\n\nevent: done\ndata: {\"type\":\"done\",\"status\":\"ok\",\"elapsed_ms\":1.5}\n\n"
	if r.Header.Get("Content-Type") != "text/event-stream" || body != want {
		t.Errorf("%q", body)
	}
	w.deleted(2)
}

func TestRunUTF8(t *testing.T) {
	w := newWorld(t, nil)
	var text string
	for _, e := range w.lines(`{"code":"split"}`) {
		if e.Type == "stdout" {
			if !utf8.ValidString(e.Text) {
				t.Errorf("%q", e.Text)
			}
			text += e.Text
		}
	}
	if text != "grü€ \uFFFD \uFFFD" {
		t.Errorf("%q", text)
	}
	var d kernelclient.TextDecoder
	var out string
	in := "aé€😀z"
	for i := range len(in) {
		out += d.Decode([]byte{in[i]})
	}
	if out+d.End() != in {
		t.Errorf("byte by byte: %q", out)
	}
}

func TestRunStdin(t *testing.T) {
	w := newWorld(t, nil)
	var out protocol.RunResult
	r := w.run(tokenAll, "", `{"code":"input;input;input","stdin":"one\ntwo"}`)
	if err := json.Unmarshal([]byte(read(t, r)), &out); err != nil {
		t.Fatal(err)
	}
	if out.Stdout != "[one false][two false][ true]" {
		t.Errorf("%q", out.Stdout)
	}
}

func TestRunTruncated(t *testing.T) {
	w := newWorld(t, nil)
	got := w.lines(`{"code":"flood:3000000;result","max_output_bytes":100000}`)
	var n int
	for _, e := range got {
		n += len(e.Text)
	}
	last := got[len(got)-2]
	if n != 100_000 || last.Type != "truncated" || last.Bytes < 2_900_000 ||
		got[len(got)-1].Status != "ok" {
		t.Errorf("%d bytes, %+v", n, last)
	}
}

// TestAbuse13_RunFlood prints far more than the window: acknowledgements keep the output coming.
func TestAbuse13_RunFlood(t *testing.T) {
	w := newWorld(t, nil)
	var n int
	for _, e := range w.lines(`{"code":"flood:20000000","max_output_bytes":67108864}`) {
		n += len(e.Text)
	}
	if n != 20_000_000 {
		t.Errorf("%d bytes", n)
	}
}

func TestRunEnds(t *testing.T) {
	w := newWorld(t, nil)
	for code, want := range map[string]struct {
		status string
		kind   fault.Kind
	}{
		"print:a;lost": {"lost", fault.SandboxLost},
		"print:a;die":  {"lost", fault.KernelDied},
	} {
		got := w.lines(`{"code":"` + code + `"}`)
		done := got[len(got)-1]
		if types(got) != "start stdout done" || done.Status != want.status || done.Fault == nil ||
			done.Fault.Kind != want.kind {
			t.Errorf("%s: %+v", code, got)
		}
	}
}

func TestRunSession(t *testing.T) {
	w := newWorld(t, nil)
	id := w.session()
	wantFault(t, w.run(tokenRun, "", `{"code":"print:a","session":"fixed"}`),
		fault.PermissionDenied)
	wantFault(t, w.run(tokenOther, "", `{"code":"print:a","session":"fixed"}`), fault.NotFound)
	if got := w.lines(`{"code":"print:a","session":"` + id + `"}`); got[0].Session != id ||
		types(got) != "start stdout done" {
		t.Errorf("%+v", got)
	}
	w.deleted(0)
}

func TestRunRefused(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.RunBody = 4 << 10 })
	for body, field := range map[string]string{
		`{}`:                                                     "code",
		`{"code":"x","timeout_ms":600001}`:                       "timeout_ms",
		`{"code":"x","timeout_ms":-1}`:                           "timeout_ms",
		`{"code":"x","max_output_bytes":-1}`:                     "max_output_bytes",
		`{"code":"x","files":[{"path":"../a"}]}`:                 "path",
		`{"code":"x","files":[{"path":"a","encoding":"rot13"}]}`: "files",
		`{"code":"x","files":[{"path":"a","encoding":"base64","content":"\u0001"}]}`: "files",
		`{"code":"x","nope":1}`: "nope",
	} {
		if p := wantFault(t, w.run(tokenAll, "", body), fault.InvalidArgument); p.Field != field {
			t.Errorf("%s: field %q", body, p.Field)
		}
	}
	wantFault(t, w.run(tokenAll, "", `{"code":"`+strings.Repeat("x", 5000)+`"}`), fault.TooLarge)
	w.fake.change(func() { w.fake.fail = fault.New(fault.Exhausted, "", "full") })
	wantFault(t, w.run(tokenAll, "text/event-stream", `{"code":"x"}`), fault.Exhausted)
}

// TestRunHangUp disconnects the client in the middle of a run, in each of the response forms.
func TestRunHangUp(t *testing.T) {
	// The failed write of a keepalive event would also reveal the disconnect, so there are none.
	w := newWorld(t, func(c *Config) { c.Times.KeepAlive = time.Hour })
	for i, accept := range []string{
		"application/json", "text/event-stream",
		"application/x-ndjson",
	} {
		t.Run(accept, func(t *testing.T) {
			c, err := net.Dial("tcp", w.addr)
			if err != nil {
				t.Fatal(err)
			}
			body := `{"code":"print:a;loop","timeout_ms":600000}`
			fmt.Fprintf(
				c, "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nAccept: %s\r\nContent-Length: %d\r\n\r\n%s", tokenAll, accept, len(body), body)
			if accept != "application/json" {
				br := bufio.NewReader(c)
				for { // the first output arrives long before the end
					line, err := br.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(line, `"stdout"`) {
						break
					}
				}
			} else {
				w.fake.await(t, "the run",
					func() bool { return len(w.fake.sessions) == 1 && w.fake.acks > 0 })
			}
			_ = c.Close()
			w.fake.await(t, "the interrupt and the deletion", func() bool {
				return w.fake.stops == i+1 && w.fake.deleted == i+1 && w.fake.links == 0
			})
			w.fake.change(func() { w.fake.acks = 0 })
		})
	}
}

func TestRunKeepAlive(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Times.KeepAlive = 20 * time.Millisecond })
	r := w.run(tokenAll, "text/event-stream", `{"code":"loop"}`)
	br := bufio.NewReader(r.Body)
	for seen := 0; seen < 3; {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ": keepalive\n" {
			seen++
		}
	}
	_ = r.Body.Close()
	w.deleted(1)
}

func TestShutdownEndsRuns(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Times.Drain = 100 * time.Millisecond })
	got := make(chan []run.Event, 1)
	go func() { got <- w.lines(`{"code":"print:a;loop","timeout_ms":60000}`) }()
	w.fake.await(t, "the run", func() bool { return w.fake.acks > 0 })
	_ = w.stop()
	w.fake.await(t, "the deletion", func() bool { return w.fake.deleted == 1 })
	select {
	case events := <-got:
		if done := events[len(events)-1]; done.Fault == nil || done.Fault.Kind != fault.Restarting {
			t.Errorf("%+v", done)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the run's response never ended")
	}
}
