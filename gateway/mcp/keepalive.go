package mcp

import (
	"maps"
	"net/http"
	"sync"
	"time"
)

// keepAlive is a response that gets a comment whenever it had no event for a while, so that neither
// proxies nor clients give up a call without output. Only a call of a tool can take that long, and
// its response is a stream of events. The library writes each event at once, so a comment is never
// inside an event.
type keepAlive struct {
	w     http.ResponseWriter
	every time.Duration
	// header has the fields that the library sets. It is copied once, because the library may set
	// it while a comment is written.
	header http.Header

	mu    sync.Mutex // guards all below and w
	timer *time.Timer
	begun bool // the header is sent
	ended bool
}

func newKeepAlive(w http.ResponseWriter, every time.Duration) *keepAlive {
	k := &keepAlive{w: w, every: every, header: w.Header().Clone()}
	if k.header == nil {
		k.header = http.Header{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(every, k.comment)
	return k
}

// Header returns the header that the library sets.
func (k *keepAlive) Header() http.Header { return k.header }

// WriteHeader sends the header.
func (k *keepAlive) WriteHeader(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writeHeader(status)
}

func (k *keepAlive) writeHeader(status int) {
	if k.begun {
		return
	}
	k.begun = true
	maps.Copy(k.w.Header(), k.header)
	k.w.WriteHeader(status)
}

// Write sends a part of the response.
func (k *keepAlive) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writeHeader(http.StatusOK)
	if !k.ended {
		k.timer.Reset(k.every)
	}
	return k.w.Write(p)
}

// Flush sends what was written.
func (k *keepAlive) Flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writeHeader(http.StatusOK)
	_ = http.NewResponseController(k.w).Flush() // the next write fails as well
}

func (k *keepAlive) comment() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	if !k.begun {
		k.begun = true
		h := k.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache, no-transform")
		k.w.WriteHeader(http.StatusOK)
	}
	_, err := k.w.Write([]byte(": keepalive\n\n"))
	if err != nil || http.NewResponseController(k.w).Flush() != nil {
		return // the client has gone
	}
	k.timer.Reset(k.every)
}

// stop ends the comments. The handler must call it before it returns.
func (k *keepAlive) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.timer.Stop()
}
