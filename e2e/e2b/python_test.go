package e2b

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// These tests send the requests of E2B's Python SDK, which has its own ways beside those of the
// JavaScript SDK.

// TestPythonCommands starts, follows, feeds and kills processes with the requests of Python's SDK.
func TestPythonCommands(t *testing.T) {
	t.Parallel()
	b := create(t, server(t), nil)
	w := b.stream("process.Process/Start", start("echo out; echo err >&2; exit 3"),
		"Connect-Timeout-Ms", "60000", "Keepalive-Ping-Interval", "50").process()
	if w.stdout != "out\n" || w.stderr != "err\n" || w.end["exitCode"] != 3.0 || w.pid == 0 {
		t.Errorf("the process said %+v", w)
	}
	if status, _ := w.end["status"].(string); status != "exit status 3" {
		t.Errorf("the status is %q", status)
	}

	request := start("cat; echo end")
	request["stdin"], request["tag"] = true, "the cat"
	s := b.stream("process.Process/Start", request)
	body, _, err := s.next()
	check(t, err)
	event, _ := body["event"].(map[string]any)
	begun, _ := event["start"].(map[string]any)
	pid := begun["pid"]
	byPID, byTag := map[string]any{"pid": pid}, map[string]any{"tag": "the cat"}
	b.call("process.Process/SendInput", map[string]any{
		"process": byPID, "input": map[string]any{"stdin": "b25lCg=="},
	}, nil)
	b.call("process.Process/SendInput", map[string]any{
		"process": byTag, "input": map[string]any{"stdin": "dHdvCg=="},
	}, nil)
	var list struct {
		Processes []struct {
			PID    float64
			Tag    string
			Config struct {
				Cmd  string
				Args []string
			}
		}
	}
	b.call("process.Process/List", map[string]any{}, &list)
	if len(list.Processes) != 1 || list.Processes[0].Tag != "the cat" ||
		list.Processes[0].PID != pid || list.Processes[0].Config.Cmd != "/bin/bash" {
		t.Errorf("the processes are %+v", list)
	}
	b.call("process.Process/CloseStdin", map[string]any{"process": byPID}, nil)
	if w := s.process(); w.stdout != "one\ntwo\nend\n" {
		t.Errorf("the process said %+v", w)
	}
	w = b.stream("process.Process/Connect", map[string]any{"process": byPID}).process()
	if w.stdout != "one\ntwo\nend\n" || w.end["exitCode"] != 0.0 && w.end["exitCode"] != nil {
		t.Errorf("a process that has ended says %+v", w)
	}
}

// TestPythonSignals ends processes by signals and by the deadline of the request.
func TestPythonSignals(t *testing.T) {
	t.Parallel()
	b := create(t, server(t), nil)
	for signal, status := range map[string]string{
		"SIGNAL_SIGKILL": "signal: killed", "SIGNAL_SIGTERM": "signal: terminated",
	} {
		s := b.stream("process.Process/Start", start("exec sleep 60"))
		body, _, err := s.next()
		check(t, err)
		event, _ := body["event"].(map[string]any)
		begun, _ := event["start"].(map[string]any)
		b.call("process.Process/SendSignal", map[string]any{
			"process": map[string]any{"pid": begun["pid"]}, "signal": signal,
		}, nil)
		w := s.process()
		if w.end["exitCode"] != -1.0 || w.end["status"] != status {
			t.Errorf("%s: %+v", signal, w)
		}
	}
	w := b.stream("process.Process/Start", start("exec sleep 60"), "Connect-Timeout-Ms",
		"700").process()
	if w.err["code"] != "deadline_exceeded" {
		t.Errorf("after the deadline: %+v", w)
	}
	expect(t, "a signal without a name", b.envd("POST", "/process.Process/SendSignal",
		map[string]any{"process": map[string]any{"pid": 1}, "signal": "SIGNAL_UNSPECIFIED"}), 400,
		"invalid_argument")
	expect(t, "a signal to nobody", b.envd("POST", "/process.Process/SendSignal",
		map[string]any{"process": map[string]any{"pid": 999_999}, "signal": "SIGNAL_SIGTERM"}), 404,
		"not_found")
	w = b.stream("process.Process/Connect",
		map[string]any{"process": map[string]any{"pid": 999_999}}).process()
	if w.err["code"] != "not_found" {
		t.Errorf("nobody says %+v", w)
	}
}

// TestPythonWatcher watches a folder by polling, as the synchronous Python SDK does.
func TestPythonWatcher(t *testing.T) {
	t.Parallel()
	b := create(t, server(t), nil)
	b.call("filesystem.Filesystem/MakeDir", map[string]any{"path": "watched/sub"}, nil)
	var made struct{ WatcherID string }
	b.call("filesystem.Filesystem/CreateWatcher",
		map[string]any{"path": "watched", "recursive": true}, &made)
	if made.WatcherID == "" {
		t.Fatal("the watcher has no id")
	}
	b.call("filesystem.Filesystem/MakeDir", map[string]any{"path": "watched/new"}, nil)
	w := b.stream("process.Process/Start", start("echo x > watched/sub/file; rm watched/sub/file"))
	w.process()
	var seen []string
	eventually(t, "the events", func() bool {
		var got struct{ Events []struct{ Name, Type string } }
		b.call("filesystem.Filesystem/GetWatcherEvents",
			map[string]any{"watcherId": made.WatcherID}, &got)
		for _, e := range got.Events {
			seen = append(seen, strings.TrimPrefix(e.Type, "EVENT_TYPE_")+" "+e.Name)
		}
		return slices.Contains(seen, "CREATE new") && slices.Contains(seen, "CREATE sub/file") &&
			slices.Contains(seen, "WRITE sub/file") && slices.Contains(seen, "REMOVE sub/file")
	})
	b.call("filesystem.Filesystem/RemoveWatcher", map[string]any{"watcherId": made.WatcherID}, nil)
	expect(t, "a removed watcher", b.envd("POST", "/filesystem.Filesystem/GetWatcherEvents",
		map[string]any{"watcherId": made.WatcherID}), 404, "not_found")
	expect(t, "a watcher of nothing", b.envd("POST", "/filesystem.Filesystem/CreateWatcher",
		map[string]any{"path": "nothing"}), 404, "not_found")
}

// TestPythonFiles writes and reads files as the Python SDK does.
func TestPythonFiles(t *testing.T) {
	t.Parallel()
	b := create(t, server(t), nil)
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/home/user/a/one\"\r\n" +
		"Content-Type: application/octet-stream\r\n\r\nfirst\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"two\"\r\n\r\nsecond\r\n--b--\r\n"
	expect(t, "upload", b.envd("POST", "/files", []byte(form), "Content-Type",
		"multipart/form-data; boundary=b"), 200, `"/home/user/a/one"`, `"/home/user/two"`,
		`"type":"file"`)
	expect(t, "read", b.envd("GET", "/files?path=a/one", nil), 200, "first")
	part := b.envd("GET", "/files?path=two", nil, "Range", "bytes=1-3")
	if part.status != http.StatusPartialContent || string(part.body) != "eco" {
		t.Errorf("a part: %d %s", part.status, part.body)
	}
	same := strings.ReplaceAll(form, "/home/user/a/one", "/home/user/two")
	expect(t, "a path twice", b.envd("POST", "/files", []byte(same), "Content-Type",
		"multipart/form-data; boundary=b"), 400)
	expect(t, "no such file", b.envd("GET", "/files?path=nothing", nil), 404, "does not exist")
	expect(t, "a folder", b.envd("GET", "/files?path=/tmp", nil), 400)
	expect(t, "another user", b.envd("GET", "/files?path=two&username=somebody", nil), 401)
	expect(t, "an unknown encoding", b.envd("GET", "/files?path=two", nil, "Accept-Encoding",
		"br, identity;q=0"), 406)
	expect(t, "an upload without a path", b.envd("POST", "/files", []byte("x"), "Content-Type",
		"application/octet-stream"), 400)
	expect(t, "an upload that is cut", b.envd("POST", "/files", []byte(form[:90]), "Content-Type",
		"multipart/form-data; boundary=b"), 400)
	empty := b.envd("POST", "/files?path=empty", []byte{}, "Content-Type", "application/octet-stream")
	expect(t, "an empty file", empty, 200)
	got := b.envd("GET", "/files?path=empty", nil)
	if got.status != 200 || got.header.Get("Content-Length") != "0" {
		t.Errorf("an empty file: %d, Content-Length %q", got.status, got.header.Get("Content-Length"))
	}
}

// TestPythonEntries reads the fields of entries.
func TestPythonEntries(t *testing.T) {
	t.Parallel()
	b := create(t, server(t), nil)
	b.stream("process.Process/Start", start(
		"mkdir d; printf 12345 > d/f; chmod 640 d/f; ln -s f d/live; ln -s nothing d/dead")).process()
	var list struct{ Entries []map[string]any }
	b.call("filesystem.Filesystem/ListDir", map[string]any{"path": "d"}, &list)
	entries := map[any]map[string]any{}
	for _, e := range list.Entries {
		entries[e["name"]] = e
	}
	f := entries["f"]
	for field, want := range map[string]any{
		"type": "FILE_TYPE_FILE", "path": "/home/user/d/f", "size": "5", "mode": 416.0,
		"permissions": "-rw-r-----", "owner": "user", "group": "user",
	} {
		if f[field] != want {
			t.Errorf("%s is %v, want %v", field, f[field], want)
		}
	}
	if f["modifiedTime"] == nil {
		t.Error("no modifiedTime")
	}
	live, dead := entries["live"], entries["dead"]
	if live["type"] != "FILE_TYPE_FILE" || live["symlinkTarget"] != "/home/user/d/f" {
		t.Errorf("a link is %v", live)
	}
	if dead["type"] != "FILE_TYPE_SYMLINK" {
		t.Errorf("a broken link is %v", dead)
	}
	expect(t, "it exists", b.envd("POST", "/filesystem.Filesystem/MakeDir",
		map[string]any{"path": "d"}), 409, "already_exists")
	expect(t, "a file is there", b.envd("POST", "/filesystem.Filesystem/MakeDir",
		map[string]any{"path": "d/f"}), 400, "invalid_argument")
	expect(t, "no folder", b.envd("POST", "/filesystem.Filesystem/ListDir",
		map[string]any{"path": "d/f"}), 400, "invalid_argument")
	expect(t, "another user", b.envd("POST", "/filesystem.Filesystem/Stat",
		map[string]any{"path": "d"}, "Authorization", "Basic c29tZWJvZHk6"), 401, "unauthenticated")
}
