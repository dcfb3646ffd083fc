package librechat

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/protocol"
)

// TestFiles uploads, lists, downloads and deletes a file.
func TestFiles(t *testing.T) {
	x := newFixture(t)
	ref := x.upload("ada", "sub/täble 1.csv", "a,b", "kind", "agent", "id", "a1")
	storage, id := ref["storage_session_id"].(string), ref["id"].(string)
	if !store.ValidID(storage) || !store.ValidID(id) {
		t.Errorf("%q %q", storage, id)
	}
	w := x.send("ada", "GET", "/download/"+storage+"/"+id+"?kind=agent&id=a1", "", nil)
	if w.Code != 200 || w.Body.String() != "a,b" ||
		w.Header().Get("Content-Disposition") != "attachment; filename*=utf-8''t%C3%A4ble%201.csv" ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	for detail, want := range map[string]string{
		"":        `[{"name":"%s/%s","id":"%[2]s"}]`,
		"simple":  `[{"name":"%s/%s","id":"%[2]s"}]`,
		"summary": `"size":3,"lastModified":"`,
		"full": `"contentType":"text/csv; charset=utf-8",` +
			`"metadata":{"original-filename":"sub/täble 1.csv"},"kind":"agent","resource_id":"a1"`,
		"normalized": `[{"name":"sub/täble 1.csv","id":"%[2]s","session_id":"%[1]s"`,
	} {
		w := x.send("ada", "GET", "/files/"+storage+"?detail="+detail, "", nil)
		if strings.Contains(want, "%") {
			want = fmt.Sprintf(want, storage, id)
		}
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, should have %s", detail, w.Code, w.Body, want)
		}
	}
	w = x.send("ada", "GET", "/sessions/"+storage+"/objects/"+id, "", nil)
	var o object
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || o.Name != storage+"/"+id ||
		o.OriginalName != "sub/täble 1.csv" || o.Size != 3 || time.Since(o.LastModified) > time.Minute {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{
		"/download/" + storage + "/" + id + "?kind=agent&id=a2", "/download/" + storage + "/x",
		"/sessions/" + id + "/objects/" + storage, "/download/..%2F..%2Fx/" + id,
	} {
		if w := x.send("ada", "GET", path, "", nil); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := x.send("ada", "DELETE", "/files/"+storage+"/"+id, "", nil); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := x.send("ada", "GET", "/files/"+storage, "", nil); w.Body.String() != "[]" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestUsersAreIsolated: another user of the tenant reaches no file and no session.
func TestUsersAreIsolated(t *testing.T) {
	x := newFixture(t)
	ref := x.upload("t/ada", "a.txt", "secret")
	path := fmt.Sprint("/", ref["storage_session_id"], "/", ref["id"])
	for _, try := range []struct{ method, path string }{
		{"GET", "/download" + path},
		{"DELETE", "/files" + path},
		{"GET", fmt.Sprint("/sessions/", ref["storage_session_id"], "/objects/", ref["id"])},
		{"DELETE", fmt.Sprint("/sessions/", ref["storage_session_id"], "/objects/", ref["id"])},
	} {
		if w := x.send("t/bob", try.method, try.path, "", nil); w.Code != http.StatusNotFound {
			t.Errorf("%s %s: %d", try.method, try.path, w.Code)
		}
	}
	list := x.send("t/bob", "GET", fmt.Sprint("/files/", ref["storage_session_id"]), "", nil)
	if list.Body.String() != "[]" {
		t.Errorf("%s", list.Body)
	}
	code, _ := x.refused("t/bob", map[string]any{"lang": "py", "code": "x", "files": []any{ref}})
	if code != http.StatusForbidden {
		t.Errorf("a foreign reference: %d", code)
	}
	if w := x.send("t/ada", "GET", "/download"+path, "", nil); w.Body.String() != "secret" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestBatch stores the files that are valid.
func TestBatch(t *testing.T) {
	x := newFixture(t)
	contentType, body := newForm("file:a.txt", "1", "file:../b.txt", "2",
		"file:large", strings.Repeat("x", maxFile+1), "file:d/c.txt", "3")
	w := x.send("ada", "POST", "/upload/batch", contentType, body)
	var a batchAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Message != messagePartial ||
		a.Succeeded != 2 || a.Failed != 2 || len(a.Files) != 4 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for i, want := range []string{messageSuccess, messageError, messageError, messageSuccess} {
		if a.Files[i].Status != want || (a.Files[i].Error == "") != (want == messageSuccess) {
			t.Errorf("%+v, should be %s", a.Files[i], want)
		}
	}
	contentType, body = newForm("file:large", strings.Repeat("x", maxFile+1))
	if w := x.send("ada", "POST", "/upload", contentType, body); w.Code !=
		http.StatusRequestEntityTooLarge || x.errorOf(w).Error != "too_large" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for name, pairs := range map[string][]string{
		"no file": {"kind", "user"}, "kind": {"file:a", "x", "kind", "group"},
		"version": {"file:a", "x", "kind", "user", "version", "1"},
	} {
		contentType, body := newForm(pairs...)
		if w := x.send("ada", "POST", "/upload", contentType, body); w.Code != 400 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := x.send("ada", "POST", "/upload", "text/plain", io.LimitReader(nil, 0)); w.Code != 400 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestRetention: a file that was kept for its time is gone, and a run removes it.
func TestRetention(t *testing.T) {
	x := newFixture(t)
	ref := x.upload("ada", "a.txt", "old")
	for _, s := range x.node.sessions {
		for name := range s.times {
			s.times[name] = time.Now().Add(-2 * time.Hour)
		}
	}
	if code, _ := x.refused("ada", map[string]any{
		"lang": "py", "code": "x", "files": []any{ref},
	}); code != http.StatusForbidden {
		t.Errorf("an old file: %d", code)
	}
	x.node.program = func(_ protocol.ChannelOpen, files map[string]string) (string, string,
		protocol.Exit,
	) {
		files[folder+"/new.txt"] = "new"
		return "", "", exited(0)
	}
	x.exec("ada", map[string]any{"lang": "py", "code": "x"})
	for _, s := range x.node.sessions {
		for name, content := range s.files {
			if content != "new" {
				t.Errorf("%s stays", name)
			}
		}
	}
}
