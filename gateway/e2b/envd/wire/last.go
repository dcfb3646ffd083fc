package wire

import (
	"context"
	"net/http"
	"sync/atomic"
)

// lastKey is the key of a call's response in its context.
type lastKey struct{}

// response is the response of a stream. After last it is not flushed any more, because its end, which
// follows at once, flushes it.
type response struct {
	http.ResponseWriter
	last atomic.Bool
}

// withLast lets Last find the response of a call.
func withLast(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	res := &response{ResponseWriter: w}
	return res, r.WithContext(context.WithValue(r.Context(), lastKey{}, res))
}

// Last declares that the next response is the last one of a stream. The client gets it together with
// the end of the stream: one read, and not two. Ctx is that of the handler, which returns after it has
// sent the response.
func Last(ctx context.Context) {
	if res, ok := ctx.Value(lastKey{}).(*response); ok {
		res.last.Store(true)
	}
}

// Flush sends what was written, unless the end of the stream follows.
func (r *response) Flush() {
	if !r.last.Load() {
		_ = http.NewResponseController(r.ResponseWriter).Flush() // a write reports the failure
	}
}

// Unwrap returns the response below.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
