package openterminal

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// errorBody is the body of a response that is an error. Clients read Detail.
type errorBody struct {
	Detail string `json:"detail"`
	// Kind is a kind of the native interface.
	Kind  string `json:"kind"`
	Trace string `json:"trace,omitempty"`
}

// writeError answers with an error in the form of Open Terminal.
func writeError(w http.ResponseWriter, err error, trace string) {
	p := surface.PublicOf(err)
	body := errorBody{Detail: p.Message, Kind: string(p.Kind), Trace: trace}
	if p.Field != "" && !strings.Contains(body.Detail, p.Field) {
		body.Detail = p.Field + ": " + body.Detail
	}
	// The advice about what does not exist is about tenants, which a model does not know.
	if p.Advice != "" && p.Advice != p.Message && p.Kind != fault.NotFound {
		body.Detail += ". " + p.Advice
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	_ = surface.WriteJSON(w, p.Kind.Row().HTTP, body)
}

// noProcess returns the error of a process that does not exist, for err.
func noProcess(err error, id string) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	return &fault.Error{
		Kind: fault.NotFound, Op: "openterminal.process", Field: "process",
		Message: "there is no process " + strconv.Quote(id) + "; list_processes lists them",
	}
}
