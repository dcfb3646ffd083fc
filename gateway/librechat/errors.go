package librechat

import (
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// errorBody is the body of a response that is an error. Clients read Error and RetryAfter.
type errorBody struct {
	Error      string `json:"error"`
	Message    string `json:"message"`
	Field      string `json:"field,omitempty"`
	Advice     string `json:"advice,omitempty"`
	RetryAfter int    `json:"retry_after_seconds,omitempty"`
	Trace      string `json:"trace,omitempty"`
}

// The values of Error that clients know.
const (
	errorRate       = "rate_limited"
	errorProfile    = "execution_profile_mismatch"
	errorCapability = "unsupported_capability"
)

// writeError answers with an error in LibreChat's form.
func writeError(w http.ResponseWriter, err error, trace string) {
	p := surface.PublicOf(err)
	body := errorBody{
		Error: string(p.Kind), Message: p.Message, Field: p.Field, Advice: p.Advice,
		RetryAfter: p.RetryAfter, Trace: trace,
	}
	switch {
	case p.Kind == fault.Exhausted:
		body.Error = errorRate
	case p.Kind == fault.Conflict && p.Field == headerExpected:
		body.Error = errorProfile
	case p.Kind == fault.Unsupported:
		body.Error = errorCapability
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	_ = surface.WriteJSON(w, p.Kind.Row().HTTP, body)
}
