package azure

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// errorBody is the body of a response that is an error.
type errorBody struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Target  string `json:"target,omitempty"`
		Trace   string `json:"traceId,omitempty"`
	} `json:"error"`
}

// writeError answers with an error in Azure's form.
func writeError(w http.ResponseWriter, err error, trace string) {
	p := surface.PublicOf(err)
	var b errorBody
	b.Error.Code, b.Error.Message = codeOf(p.Kind), p.Message
	b.Error.Target, b.Error.Trace = p.Field, trace
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	_ = surface.WriteJSON(w, p.Kind.Row().HTTP, b)
}

// codeOf returns the code of a kind of error.
func codeOf(k fault.Kind) string {
	switch k {
	case fault.InvalidArgument, fault.Malformed:
		return "BadRequest"
	case fault.Unauthenticated:
		return "Unauthorized"
	case fault.PermissionDenied:
		return "Forbidden"
	case fault.NotFound:
		return "NotFound"
	case fault.TooLarge:
		return "RequestEntityTooLarge"
	case fault.Exhausted:
		return "TooManyRequests"
	case fault.Unsupported:
		return "NotImplemented"
	case fault.Unavailable, fault.Restarting:
		return "ServiceUnavailable"
	}
	return "InternalServerError"
}

// decode reads a body of JSON. Fields that v does not have are ignored.
func decode(r *http.Request, v any) error {
	err := json.NewDecoder(r.Body).Decode(v)
	if err == nil || fault.Is(err, fault.TooLarge) {
		return err
	}
	return &fault.Error{
		Kind: fault.Malformed, Op: "azure.decode", Message: "the body is not a JSON object", Err: err,
	}
}
