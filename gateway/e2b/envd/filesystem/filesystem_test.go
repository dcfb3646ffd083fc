package filesystem

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/envd/remote/remotetest"
	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

type rig struct {
	t    *testing.T
	node *remotetest.Node
	url  string
	end  context.CancelFunc
	// session is the session of the requests.
	session string
}

func newRig(t *testing.T) *rig {
	base, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	r := &rig{t: t, node: remotetest.New(t), end: end, session: remotetest.Session}
	s := httptest.NewServer(New(Config{
		Config: remote.Config{Node: r.node, Base: base, Call: 10 * time.Second},
		Target: func(context.Context) remote.Target {
			return remote.Target{
				Session: r.session, Who: noderpc.Principal{Tenant: remotetest.Tenant},
			}
		},
	}, wire.NewSchema()))
	t.Cleanup(s.Close)
	r.url = s.URL + "/filesystem.Filesystem/"
	return r
}

// call returns the response of a unary method, and its code if it is an error.
func (r *rig) call(method, body string, header ...string) (text, code string) {
	r.t.Helper()
	q, err := http.NewRequest("POST", r.url+method, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", "cut"
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var e struct{ Code string }
	if res.StatusCode != 200 {
		_ = json.Unmarshal(all, &e)
	}
	return string(all), e.Code
}

// entry returns the entry in a response.
func (r *rig) entry(text string) map[string]any {
	r.t.Helper()
	var v struct{ Entry map[string]any }
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		r.t.Fatal(text, err)
	}
	return v.Entry
}

// TestEntries compares the descriptions of files of each type.
func TestEntries(t *testing.T) {
	r := newRig(t)
	r.node.Store("/home/user/f", remotetest.File{Type: "file", Content: "12", Mode: 0o644})
	r.node.Store("/home/user/d", remotetest.File{Type: "folder", Mode: 0o1777})
	r.node.Store("/home/user/lf", remotetest.File{Type: "link", Mode: 0o777, Target: "/home/user/f"})
	r.node.Store("/home/user/ld", remotetest.File{Type: "link", Mode: 0o777, Target: "/home/user/d"})
	r.node.Store("/home/user/lx", remotetest.File{Type: "link", Mode: 0o777, Target: "/nowhere"})
	for path, want := range map[string]string{
		"f":               "f FILE_TYPE_FILE /home/user/f 2 420 -rw-r--r-- user user <nil>",
		"~/f":             "f FILE_TYPE_FILE /home/user/f 2 420 -rw-r--r-- user user <nil>",
		"/home/user//d/.": "d FILE_TYPE_DIRECTORY /home/user/d 0 511 dtrwxrwxrwx user user <nil>",
		"~":               "user FILE_TYPE_DIRECTORY /home/user 0 493 drwxr-xr-x user user <nil>",
		"lf":              "lf FILE_TYPE_FILE /home/user/lf 0 511 Lrwxrwxrwx user user /home/user/f",
		"ld":              "ld FILE_TYPE_DIRECTORY /home/user/ld 0 511 Lrwxrwxrwx user user /home/user/d",
		"lx":              "lx FILE_TYPE_SYMLINK /home/user/lx 0 511 Lrwxrwxrwx user user /home/user/lx",
	} {
		text, code := r.call("Stat", `{"path":"`+path+`"}`)
		if code != "" {
			t.Fatal(path, text)
		}
		e := r.entry(text)
		got := fmt.Sprint(e["name"], " ", e["type"], " ", e["path"], " ", e["size"], " ", e["mode"],
			" ", e["permissions"], " ", e["owner"], " ", e["group"], " ", e["symlinkTarget"])
		if got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
		if _, text := e["size"].(string); !text || e["modifiedTime"] != "2023-11-14T22:13:20.123Z" {
			t.Errorf("%s: %v", path, e)
		}
	}
}

// TestPermissions compares the text of permissions with that of fs.FileMode.
func TestPermissions(t *testing.T) {
	for want, x := range map[string]protocol.File{
		"-rwxr-x---": {Type: "file", Mode: 0o750}, "urwxr-xr-x": {Type: "file", Mode: 0o4755},
		"dgrwx------": {Type: "folder", Mode: 0o2700}, "prw-------": {Type: "fifo", Mode: 0o600},
		"Srwxrwxrwx": {Type: "socket", Mode: 0o777}, "Drw-rw----": {Type: "device", Mode: 0o660},
	} {
		if got := permissions(x.Type, x.Mode); got != want {
			t.Errorf("%+v: %s, want %s", x, got, want)
		}
	}
}

// TestUnary compares the results and codes of the methods with one response.
func TestUnary(t *testing.T) {
	r := newRig(t)
	r.node.Store("/home/user/f", remotetest.File{Type: "file", Content: "12", Mode: 0o644})
	r.node.Store("/home/user/d/e/g", remotetest.File{Type: "file"})
	long := strings.Repeat("x", 4097)
	for _, x := range []struct{ method, body, code, part string }{
		{"Stat", `{"path":"none"}`, "not_found", "/home/user/none"},
		{"Stat", `{"path":"~other/f"}`, "invalid_argument", ""},
		{"Stat", `{"path":"` + long + `"}`, "invalid_argument", ""},
		{"Stat", `{"path":"a\u0000b"}`, "invalid_argument", ""},
		{"Stat", `{"path":5}`, "invalid_argument", ""},
		{"MakeDir", `{"path":"a/b/c"}`, "", `"path":"/home/user/a/b/c"`},
		{"MakeDir", `{"path":"a/b/c"}`, "already_exists", "/home/user/a/b/c"},
		{"MakeDir", `{"path":"f"}`, "invalid_argument", "not a directory"},
		{"Move", `{"source":"f","destination":"/new/place/f"}`, "", `"path":"/new/place/f"`},
		{"Move", `{"source":"f","destination":"x"}`, "not_found", "/home/user/f"},
		{"Move", `{"source":"f","destination":"~x"}`, "invalid_argument", ""},
		{"Move", `{"source":"/new/place/f","destination":"/new/place/f"}`, "", `"size":"2"`},
		{"ListDir", `{"path":"none"}`, "not_found", "/home/user/none"},
		{"ListDir", `{"path":"/new/place/f"}`, "invalid_argument", "not a directory"},
		{"ListDir", `{"path":"/new/place","depth":0}`, "", `"name":"f"`},
		{"ListDir", `{"path":"a/b/c"}`, "", `{"entries":[]}`},
		{"Remove", `{"path":"/new"}`, "", "{}"},
		{"Remove", `{"path":"/new"}`, "", "{}"},
		{"GetWatcherEvents", `{"watcherId":"none"}`, "not_found", ""},
		{"RemoveWatcher", `{"watcherId":"none"}`, "not_found", ""},
		{"CreateWatcher", `{"path":"none"}`, "not_found", ""},
		{"CreateWatcher", `{"path":"d/e/g"}`, "invalid_argument", "not a directory"},
	} {
		text, code := r.call(x.method, x.body)
		compact := strings.ReplaceAll(text, `": `, `":`)
		if code != x.code || !strings.Contains(compact, x.part) {
			t.Errorf("%s %.100s: %s %.300s", x.method, x.body, code, text)
		}
	}
	for _, method := range []string{
		"Stat", "MakeDir", "Move", "ListDir", "Remove", "CreateWatcher", "GetWatcherEvents",
		"RemoveWatcher",
	} {
		if _, code := r.call(method, `{}`, "Authorization", "Basic bm9ib2R5Og=="); code !=
			"unauthenticated" {
			t.Errorf("%s for an unknown user: %s", method, code)
		}
	}
	if n := r.node.Links(); n != 0 {
		t.Errorf("%d links remain", n)
	}
	for _, err := range []error{
		fault.New(fault.SandboxLost, "x", "ended"), fault.New(fault.NotFound, "x", "no session"),
	} {
		r.node.Fail(err)
		if _, code := r.call("Stat", `{"path":"f"}`); code != "cut" {
			t.Errorf("after the end of the sandbox: %q", code)
		}
	}
}

// TestListDir lists more entries than one page has, and two levels.
func TestListDir(t *testing.T) {
	r := newRig(t)
	for i := range pageSize + 10 {
		r.node.Store(fmt.Sprintf("/many/%05d", i), remotetest.File{Type: "file"})
	}
	r.node.Store("/many/00000/deep", remotetest.File{Type: "file"})
	for depth, want := range map[int]int{
		0: pageSize + 10, 1: pageSize + 10, 2: pageSize + 11, 1e9: pageSize + 11,
	} {
		text, code := r.call("ListDir", fmt.Sprintf(`{"path":"/many","depth":%d}`, depth))
		if got := strings.Count(text, `"name"`); code != "" || got != want {
			t.Errorf("depth %d: %d entries, want %d; %s", depth, got, want, code)
		}
	}
}

// stream opens WatchDir.
func (r *rig) stream(body string, header ...string) *http.Response {
	r.t.Helper()
	envelope := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	q, err := http.NewRequest("POST", r.url+"WatchDir", bytes.NewReader(append(envelope, body...)))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/connect+json")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// message reads the next message of a stream; "cut" if the connection was cut.
func message(r io.Reader) string {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "cut"
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(r, body); err != nil {
		return "cut"
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, body)
	return compact.String()
}

func change(kind, path string) protocol.FileChanges {
	return protocol.FileChanges{Changes: []protocol.FileChange{{Path: path, Kind: kind}}}
}

// TestWatchDir compares the events of a stream.
func TestWatchDir(t *testing.T) {
	r := newRig(t)
	r.node.Store("/d/sub/f", remotetest.File{Type: "file", Mode: 0o644})
	for body, want := range map[string]string{
		`{"path":"/none"}`:    "not_found",
		`{"path":"/d/sub/f"}`: "invalid_argument",
		`{"path":"~x"}`:       "invalid_argument",
	} {
		if got := message(r.stream(body).Body); !strings.Contains(got, want) {
			t.Errorf("%s: %s", body, got)
		}
	}
	in := r.stream(`{"path":"/d","recursive":true,"includeEntry":true}`,
		"Keepalive-Ping-Interval", "1").Body
	if got := message(in); got != `{"start":{}}` {
		t.Fatal(got)
	}
	for kind, want := range map[string]string{
		"created": "CREATE", "modified": "WRITE", "removed": "REMOVE", "moved": "RENAME",
		"mode": "CHMOD",
	} {
		r.node.Change(change(kind, "/d/sub/f"))
		got := message(in)
		entry := strings.Contains(got, `"permissions":"-rw-r--r--"`)
		if !strings.Contains(got, `"name":"sub/f","type":"EVENT_TYPE_`+want+`"`) ||
			entry != (want != "REMOVE" && want != "RENAME") {
			t.Errorf("%s: %s", kind, got)
		}
	}
	if got := message(in); got != `{"keepalive":{}}` {
		t.Error(got)
	}
	r.node.Change(protocol.FileChanges{Overflow: true})
	if got := message(in); !strings.Contains(got, "resource_exhausted") {
		t.Error(got)
	}
	in = r.stream(`{"path":"/d"}`).Body
	message(in)
	gone := change("removed", "/d")
	gone.Ended = true
	r.node.Change(gone)
	if got := message(in); !strings.Contains(got, `"name":"."`) {
		t.Error(got)
	}
	if got := message(in); got != `{}` {
		t.Error(got)
	}
	in = r.stream(`{"path":"/d"}`).Body
	message(in)
	lost := fault.PublicOf(fault.New(fault.SandboxLost, "x", "ended"))
	r.node.Change(protocol.FileChanges{Ended: true, Error: &lost})
	if got := message(in); got != "cut" {
		t.Errorf("the sandbox has ended: %s", got)
	}
}

// TestWatchDirEnds ends streams by the client and by the server.
func TestWatchDirEnds(t *testing.T) {
	r := newRig(t)
	first, second := r.stream(`{"path":"."}`), r.stream(`{"path":"."}`)
	message(first.Body)
	message(second.Body)
	_ = first.Body.Close()
	for r.node.Links() != 1 { // the client's end is noticed after a while
		if t.Context().Err() != nil {
			t.Fatal("a link remains")
		}
	}
	r.end()
	if got := message(second.Body); got != "cut" {
		t.Error(got)
	}
}

// TestWatchers asks for the events of watchers, of which there are only so many.
func TestWatchers(t *testing.T) {
	r := newRig(t)
	create := func() string {
		t.Helper()
		text, code := r.call("CreateWatcher", `{"path":".","recursive":true}`)
		var v struct{ WatcherID string }
		if err := json.Unmarshal([]byte(text), &v); err != nil || code != "" {
			t.Fatal(text, err)
		}
		return `{"watcherId":"` + v.WatcherID + `"}`
	}
	id := create()
	if text, code := r.call("GetWatcherEvents", id); code != "" || text != `{"events":[]}` {
		t.Error(text, code)
	}
	events := func(want string) {
		t.Helper()
		for {
			text, code := r.call("GetWatcherEvents", id)
			if strings.Contains(text, want) {
				return
			}
			if text != `{"events":[]}` || t.Context().Err() != nil {
				t.Fatal(text, code)
			}
		}
	}
	r.node.Change(change("created", "/home/user/a"))
	events("EVENT_TYPE_CREATE")
	r.node.Change(protocol.FileChanges{Overflow: true})
	events("resource_exhausted")
	many := protocol.FileChanges{}
	for i := range maxWaiting + 1 {
		many.Changes = append(many.Changes, protocol.FileChange{
			Path: fmt.Sprint("/home/user/", i), Kind: "created",
		})
	}
	r.node.Change(many)
	events("resource_exhausted")
	for range maxOfSession - 1 {
		create()
	}
	if text, code := r.call("CreateWatcher", `{"path":"."}`); code != "resource_exhausted" {
		t.Error(text, code)
	}
	r.session = "s_other"
	for _, method := range []string{"GetWatcherEvents", "RemoveWatcher"} {
		if text, code := r.call(method, id); code != "not_found" {
			t.Errorf("%s of another sandbox: %s", method, text)
		}
	}
	r.session = remotetest.Session
	if text, code := r.call("RemoveWatcher", id); code != "" {
		t.Error(text)
	}
	if _, code := r.call("GetWatcherEvents", id); code != "not_found" {
		t.Error(code)
	}
	create()
	r.end()
	for r.node.Links() != 0 {
		if t.Context().Err() != nil {
			t.Fatal("a link remains")
		}
	}
}
