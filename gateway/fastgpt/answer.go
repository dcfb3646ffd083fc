package fastgpt

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// request is the body of a run. Clients send more fields; they have no effect.
type request struct {
	Code      string          `json:"code"`
	Variables json.RawMessage `json:"variables"`
}

// answer is the body of every response.
type answer struct {
	Success bool   `json:"success"`
	Message string `json:"message,omitempty"`
	Data    any    `json:"data,omitempty"`
}

// returned is the data of the answer to a run.
type returned struct {
	Value json.RawMessage `json:"codeReturn"`
	Log   string          `json:"log"`
}

// modules is the data of the answer to modules.
type modules struct {
	JS      []string `json:"js"`
	Python  []string `json:"python"`
	Globals []string `json:"builtinGlobals"`
}

// readRequest reads the request of a run.
func readRequest(r *http.Request) (*request, error) {
	const op = "fastgpt.run"
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		if fault.Is(err, fault.TooLarge) {
			return nil, err
		}
		return nil, &fault.Error{
			Kind: fault.Malformed, Op: op, Message: "the body is not the JSON of a run", Err: err,
		}
	}
	if q.Code == "" {
		return nil, fault.Invalid(op, "code", "there is no code")
	}
	switch text := string(q.Variables); {
	case text == "" || text == "null":
		q.Variables = []byte("{}")
	case text[0] != '{':
		return nil, fault.Invalid(op, "variables", "they are a JSON object")
	}
	return &q, nil
}

// answerOf returns the answer for an outcome.
func answerOf(o oneshot.Outcome) answer {
	if o.Status == oneshot.OK && o.Value == nil {
		o.Message = "the program has ended before main returned"
	} else if o.Status == oneshot.OK {
		return answer{Success: true, Data: returned{o.Value, strings.TrimSuffix(o.Stdout, "\n")}}
	}
	if o.Message == "" {
		o.Message = o.Name // such as AssertionError
	}
	return answer{Message: o.Message}
}

// writeError answers with an error in FastGPT's form.
func writeError(w http.ResponseWriter, err error, _ string) {
	p := surface.PublicOf(err)
	if p.Field != "" {
		p.Message = p.Field + ": " + p.Message
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	_ = surface.WriteJSON(w, p.Kind.Row().HTTP, answer{Message: p.Message})
}
