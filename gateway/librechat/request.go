package librechat

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The headers of execution profiles, and the profiles.
const (
	headerExpected = "X-CodeAPI-Expected-Profile"
	headerProfile  = "X-CodeAPI-Execution-Profile"

	profileDefault  = "default"
	profileStateful = "stateful"
)

// The bounds of a request.
const (
	maxArgs     = 256
	maxHint     = 512
	minTimeout  = 100 * time.Millisecond
	maxCodeSize = 8 << 20
)

// request is the body of a run. Clients send more fields; they have no effect.
type request struct {
	Lang      string    `json:"lang"`
	Code      string    `json:"code"`
	Args      []string  `json:"args"`
	Files     []fileRef `json:"files"`
	Hint      string    `json:"runtime_session_hint"`
	TimeoutMS int64     `json:"timeout"`

	language language
	timeout  time.Duration
}

// fileRef names a stored file, in the form of either generation of clients.
type fileRef struct {
	ID       string `json:"id"`
	Resource string `json:"resource_id"`
	Storage  string `json:"storage_session_id"`
	Session  string `json:"session_id"`
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Version  int    `json:"version"`
}

// storage returns the id of the storage session.
func (f fileRef) storage() string {
	if f.Storage != "" {
		return f.Storage
	}
	return f.Session
}

func (f fileRef) owner() store.Owner {
	return store.Owner{Kind: f.Kind, ID: f.Resource, Version: f.Version}
}

// readRun reads and checks the request of a run.
func (s *Surface) readRun(r *http.Request) (*request, error) {
	var q request
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	return &q, s.check(&q)
}

// decode reads the JSON body of a request. It ignores unknown fields.
func decode(r *http.Request, v any) error {
	err := json.NewDecoder(r.Body).Decode(v)
	if err == nil || fault.Is(err, fault.TooLarge) {
		return err
	}
	return &fault.Error{
		Kind: fault.Malformed, Op: "librechat.decode",
		Message: "the body is not a JSON object of this request", Err: err,
	}
}

// check checks the request of a run, and sets its language and its time.
func (s *Surface) check(q *request) error {
	const op = "librechat.exec"
	switch {
	case q.Code == "" || len(q.Code) > maxCodeSize:
		return fault.Invalid(op, "code", "the code has 1 to %d bytes", maxCodeSize)
	case len(q.Args) > maxArgs:
		return fault.Invalid(op, "args", "a run has at most %d arguments", maxArgs)
	case len(q.Hint) > maxHint:
		return fault.Invalid(op, "runtime_session_hint", "it has at most %d bytes", maxHint)
	case len(q.Files) > maxInputs:
		return fault.Invalid(op, "files", "a run names at most %d files", maxInputs)
	case q.TimeoutMS < 0:
		return fault.Invalid(op, "timeout", "it is in milliseconds, from 0")
	}
	q.timeout = s.cfg.Timeout
	if q.TimeoutMS > 0 {
		asked := time.Duration(min(q.TimeoutMS, s.cfg.Timeout.Milliseconds())) * time.Millisecond
		q.timeout = max(asked, minTimeout)
	}
	var known bool
	if q.language, known = languages()[q.Lang]; !known {
		return fault.Invalid(op, "lang", "%.40q is not a language of this API", q.Lang)
	}
	return nil
}

// profile returns the profile of a run. Errors: Conflict with the header as its field if the client
// expects another one.
func profile(r *http.Request, q *request) (string, error) {
	is := profileDefault
	if q.Hint != "" {
		is = profileStateful
	}
	expected := r.Header.Get(headerExpected)
	if expected == "" || expected == is {
		return is, nil
	}
	return is, &fault.Error{
		Kind: fault.Conflict, Op: "librechat.exec", Field: headerExpected,
		Message: "the run has the profile " + is + ": runtime_session_hint decides",
	}
}
