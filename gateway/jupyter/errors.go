package jupyter

import (
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// errorBody is the body of an error in Jupyter's form.
type errorBody struct {
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Trace   string `json:"trace_id,omitempty"`
}

// statusOf returns the HTTP status of a kind of error. A client takes 503 for a reason to try again,
// and 404 for the end of a kernel.
func statusOf(kind fault.Kind) int {
	switch kind {
	case fault.Unauthenticated:
		return http.StatusForbidden
	case fault.SandboxLost, fault.KernelDied:
		return http.StatusGone
	}
	return kind.Row().HTTP
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, err error, trace string) {
	p := surface.PublicOf(err)
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.Header().Del("Content-Length")
	// There is nothing to do about an error: the client has gone.
	_ = surface.WriteJSON(w, statusOf(p.Kind), errorBody{
		Message: p.Message, Reason: string(p.Kind), Trace: trace,
	})
}
