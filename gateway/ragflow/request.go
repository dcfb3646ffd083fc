package ragflow

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The languages of RAGFlow.
const (
	languagePython = "python"
	languageNode   = "nodejs"
)

// The helpers make the folder for artifacts and call main as RAGFlow documents it.
const (
	helpersPython = `def prepare(names, arguments):
    import os

    os.makedirs("artifacts", exist_ok=True)


def call(main, arguments):
    return main(**arguments)
`
	helpersNode = "function prepare() { require('node:fs').mkdirSync('artifacts', { recursive: true }); }"
)

// request is the body of a run. Clients send more fields; they have no effect.
type request struct {
	Code      []byte          `json:"code_b64"`
	Language  string          `json:"language"`
	Arguments json.RawMessage `json:"arguments"`
}

// readProgram reads the program of a request.
func readProgram(r *http.Request) (oneshot.Program, error) {
	const op = "ragflow.run"
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		if fault.Is(err, fault.TooLarge) {
			return oneshot.Program{}, err
		}
		if _, ok := err.(base64.CorruptInputError); ok {
			return oneshot.Program{}, fault.Invalid(op, "code_b64", "it is not base64")
		}
		return oneshot.Program{}, &fault.Error{
			Kind: fault.InvalidArgument, Op: op, Message: "the body is not the JSON of a run", Err: err,
		}
	}
	if len(q.Code) == 0 {
		return oneshot.Program{}, fault.Invalid(op, "code_b64", "there is no code")
	}
	call := &oneshot.Call{Arguments: q.Arguments, Module: "main", Helpers: helpersPython}
	p := oneshot.Program{Language: oneshot.Python, Code: string(q.Code), Call: call}
	switch q.Language {
	case languagePython, "":
	case languageNode:
		p.Language, call.Helpers = oneshot.JavaScript, helpersNode
	default:
		return p, fault.Invalid(op, "language", "it is %s or %s", languagePython, languageNode)
	}
	if text := string(q.Arguments); text == "" || text == "null" {
		call.Arguments = []byte("{}")
	} else if text[0] != '{' {
		return p, fault.Invalid(op, "arguments", "they are a JSON object")
	}
	return p, nil
}

// errorBody is the body of a response that is an error.
type errorBody struct {
	Detail string `json:"detail"`
}

// writeError answers with an error in RAGFlow's form.
func writeError(w http.ResponseWriter, err error, _ string) {
	p := surface.PublicOf(err)
	status := p.Kind.Row().HTTP
	if p.Kind == fault.InvalidArgument {
		status = http.StatusUnprocessableEntity
	}
	if p.Field != "" {
		p.Message = p.Field + ": " + p.Message
	}
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	_ = surface.WriteJSON(w, status, errorBody{p.Message})
}
