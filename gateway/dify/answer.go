package dify

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The languages of Dify.
const (
	languagePython = "python3"
	languageNode   = "nodejs"
)

// languageOf returns the language of the server. Errors: Unsupported.
func languageOf(name string) (string, error) {
	switch name {
	case languagePython:
		return oneshot.Python, nil
	case languageNode:
		return oneshot.JavaScript, nil
	}
	return "", errLanguage()
}

func errLanguage() error {
	return fault.New(fault.Unsupported, "dify.language", "the languages are %s and %s",
		languagePython, languageNode)
}

// answer is the body of every response. Data is nil for an error.
type answer struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

const messageSuccess = "success"

// The codes of errors. Dify shows the message of a response with the status 200; it replaces that of
// any other.
const (
	codeRequest      = -400
	codeUnauthorized = -401
	codeLimit        = -429
	codeInternal     = -500
	codeOverload     = -503
)

// writeError answers with an error in Dify's form.
func writeError(w http.ResponseWriter, err error, _ string) {
	p := surface.PublicOf(err)
	status, code := http.StatusOK, codeInternal
	switch p.Kind {
	case fault.Unauthenticated:
		status, code = http.StatusUnauthorized, codeUnauthorized
	case fault.PermissionDenied:
		status, code = http.StatusForbidden, codeUnauthorized
	case fault.Unsupported:
		status, code = http.StatusBadRequest, codeRequest
	case fault.InvalidArgument, fault.Malformed, fault.TooLarge:
		code = codeRequest
	case fault.Exhausted:
		// A quota is the caller's; without one, the server has no place.
		if code = codeLimit; !strings.HasPrefix(p.Field, "quota.") {
			status, code = http.StatusServiceUnavailable, codeOverload
		}
	case fault.Unavailable, fault.Restarting:
		status, code = http.StatusServiceUnavailable, codeOverload
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	_ = surface.WriteJSON(w, status, answer{Code: code, Message: p.Message})
}

// decode reads a body of JSON. Fields that v does not have are ignored.
func decode(r *http.Request, v any) error {
	err := json.NewDecoder(r.Body).Decode(v)
	if err == nil || fault.Is(err, fault.TooLarge) {
		return err
	}
	return &fault.Error{
		Kind: fault.Malformed, Op: "dify.decode", Message: "the body is not a JSON object", Err: err,
	}
}
