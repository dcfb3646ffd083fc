package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
)

// lobeHubKey is the key with which tests sign tokens of LobeHub.
const lobeHubKey = "a signing key for tests"

// lobeHub has a key and an object store for requests of LobeHub.
type lobeHub struct {
	config, url string
	dir         string
	store       *httptest.Server

	mu    sync.Mutex // guards files
	files map[string]string
}

// lobeObjects is the object store of the shared server.
var lobeObjects *lobeHub

// newLobeHub starts the object store and writes the key.
func newLobeHub() (*lobeHub, error) {
	dir, err := os.MkdirTemp("", "lobehub")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(dir+"/key", []byte(lobeHubKey+"\n"), 0o600); err != nil {
		return nil, err
	}
	l := &lobeHub{dir: dir, files: map[string]string{}}
	l.store = httptest.NewServer(http.HandlerFunc(l.put))
	l.url = l.store.URL
	l.config = "onlyboxes: {jit_key_file: " + dir + "/key, jit_issuers: [https://chat.example.org], " +
		"export_hosts: [\"" + strings.TrimPrefix(l.url, "http://") + "\"], " +
		"export_networks: [127.0.0.0/8]}"
	lobeObjects = l
	return l, nil
}

func (l *lobeHub) close() {
	l.store.Close()
	_ = os.RemoveAll(l.dir)
}

// put stores the body of a PUT. A path below /redirect leads to another one.
func (l *lobeHub) put(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/redirect"); ok {
		http.Redirect(w, r, rest, http.StatusTemporaryRedirect)
		return
	}
	content, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPut || r.Header.Get("Cookie") != "" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[r.URL.Path] = r.Header.Get("X-Amz-Tag") + r.Header.Get("Content-Type") + "|" + string(content)
}

func (l *lobeHub) stored(path string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[path]
}
