package librechat

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/librechat/toolcalls"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The limits of programs that call tools.
const (
	maxTools   = 100     // tools of a program
	maxTool    = 256     // bytes of the name of a tool
	maxResults = 8 << 20 // bytes of the results of one step
	maxCancel  = 4 << 10 // the body of a cancellation
)

// The values of status in the answer of a step.
const (
	statusCalls     = "tool_call_required"
	statusCompleted = "completed"
)

// programs serves programs that call tools of their client.
type programs struct {
	*Surface
	steps *steps
}

// programRequest is the body of a step: the first one has code and tools, later ones a token.
type programRequest struct {
	request
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
	Token   string             `json:"continuation_token"`
	Results []toolcalls.Result `json:"tool_results"`
}

// callsAnswer is the answer to a step that ends with calls.
type callsAnswer struct {
	Status  string           `json:"status"`
	Token   string           `json:"continuation_token"`
	Calls   []toolcalls.Call `json:"tool_calls"`
	Partial string           `json:"partial_stdout,omitempty"`
	Session string           `json:"session_id"`
	Storage string           `json:"storage_session_id"`
}

// endAnswer is the answer to a step in which the program ends.
type endAnswer struct {
	answer
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// serve makes one step of a program that calls tools of its client.
func (s *programs) serve(w http.ResponseWriter, r *http.Request) error {
	var q programRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	u, id := userOf(r), r.Header.Get(headerRequest)
	if len(id) > maxHint {
		return fault.Invalid("librechat.programmatic", headerRequest, "it has at most %d bytes",
			maxHint)
	}
	start, name := s.startProgram, store.NewID()
	if q.Token == "" {
		if err := s.checkProgram(w, r, &q); err != nil {
			return err
		}
	} else {
		w.Header().Set(headerProfile, r.Header.Get(headerExpected)) // the first step has checked it
		start, name = s.continueProgram, programOf(q.Token)
	}
	ctx, leave, err := s.steps.track(r.Context(), u.Key, name, id)
	if err != nil {
		return err
	}
	defer leave()
	p, err := start(ctx, u, name, &q, id)
	var a any
	if err == nil {
		a, err = s.step(ctx, u, p, &q)
	}
	switch {
	case r.Context().Err() != nil:
		s.leaveProgram(u, p)
		return surface.ErrGone()
	case context.Cause(ctx) == errCancelled:
		s.discard(u, p.session)
		a, err = canceledAnswer(), nil
	case err != nil && p != nil:
		s.discard(u, p.session)
	}
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, a)
}

// leaveProgram ends a program whose client has gone. A gateway that ends leaves programs alone.
func (s *programs) leaveProgram(u store.User, p *waiting) {
	if p != nil && s.cfg.Base.Err() == nil {
		s.discard(u, p.session)
	}
}

func canceledAnswer() any {
	a := endAnswer{Status: statusError, Error: "The run was cancelled."}
	a.Files = []resultRef{}
	return a
}

// checkProgram checks the request of a first step, and counts it.
func (s *programs) checkProgram(w http.ResponseWriter, r *http.Request, q *programRequest) error {
	const op = "librechat.programmatic"
	switch q.Lang {
	case "", toolcalls.Python, "py":
		q.Lang = "py"
	case toolcalls.Bash:
	default:
		return fault.Invalid(op, "lang", "programs that call tools are python or bash")
	}
	if err := s.check(&q.request); err != nil {
		return err
	}
	if len(q.Tools) == 0 || len(q.Tools) > maxTools {
		return fault.Invalid(op, "tools", "a program has 1 to %d tools", maxTools)
	}
	for _, t := range q.Tools {
		if t.Name == "" || len(t.Name) > maxTool {
			return fault.Invalid(op, "tools", "the name of a tool has 1 to %d bytes", maxTool)
		}
	}
	is, err := profile(r, &q.request)
	w.Header().Set(headerProfile, is)
	if err != nil {
		return err
	}
	if err := s.rates.admit(userOf(r).Key, time.Now()); err != nil {
		s.cfg.Full()
		return err
	}
	return nil
}

// step makes the next step of a program, and returns the answer.
func (s *programs) step(ctx context.Context, u store.User, p *waiting, q *programRequest,
) (any, error) {
	e, err := s.follow(ctx, u, p)
	if err != nil {
		return nil, err
	}
	a := endAnswer{Status: statusError}
	a.Session, a.Storage, a.Files = p.Storage, p.Storage, []resultRef{}
	switch {
	case e == nil:
		a.Error = "The sandbox of the program ended: memory or another limit was reached."
		a.Stderr = a.Error + "\n"
	case !e.Ended && p.number > toolcalls.MaxSteps:
		a.Error = fmt.Sprintf("The program has waited for tools more than %d times.",
			toolcalls.MaxSteps)
		a.Stdout, a.Stderr = e.Stdout, line(e.Stderr, a.Error)
	case !e.Ended:
		return callsAnswer{
			Status: statusCalls, Token: tokenOf(p.name, p.number+1), Calls: e.Calls,
			Partial: e.Stdout, Session: p.Storage, Storage: p.Storage,
		}, nil
	default:
		a.programEnded(e, time.Duration(p.TimeoutMS)*time.Millisecond)
		err := s.collect(ctx, u, place{session: p.session}, &a.answer, p.inputs(),
			&stage{known: p.Known, cursor: p.Cursor, source: p.Source}, nil)
		if err != nil {
			return nil, err
		}
	}
	s.discard(u, p.session)
	return a, nil
}

// programEnded sets the end of the program.
func (a *endAnswer) programEnded(e *toolcalls.Event, timeout time.Duration) {
	exit := protocol.Exit{Code: e.Code}
	if e.Code < 0 {
		exit.Code, exit.Signal = 128-e.Code, unix.SignalName(unix.Signal(-e.Code))
	}
	o := outcome{stdout: e.Stdout, stderr: e.Stderr}
	o.finish(&exit, nil, e.Expired, timeout)
	o.stderr = line(leftOut(o.stderr, e.Dropped), o.message)
	a.ended(o)
	a.Status = statusCompleted
	if o.status != statusOK {
		a.Status = statusError
		a.Error = o.message
		if a.Error == "" {
			a.Error = fmt.Sprintf("The program ended with the exit status %d.", exit.Code)
		}
	}
}

// cancel ends the program whose last step had a request id.
func (s *programs) cancel(w http.ResponseWriter, r *http.Request) error {
	const op = "librechat.cancel"
	var q struct {
		Request string `json:"request_id"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Request == "" || len(q.Request) > maxHint {
		return fault.Invalid(op, "request_id", "it has 1 to %d bytes", maxHint)
	}
	u := userOf(r)
	found := s.steps.cancel(u.Key, q.Request)
	if !found {
		sessions, err := s.sessions(r.Context(), u, labelRequest+":"+
			digest("request", u.Key, q.Request), 1)
		if err != nil {
			return err
		}
		for _, v := range sessions {
			s.discard(u, v.ID)
			found = true
		}
	}
	if !found {
		return surface.WriteJSON(w, http.StatusOK, map[string]string{"status": "already_completed"})
	}
	return surface.WriteJSON(w, http.StatusAccepted,
		map[string]string{"status": "cancellation_requested"})
}

// tokenOf returns the token with which a client makes a step of a program.
func tokenOf(name string, step int) string { return fmt.Sprintf("%s.%d", name, step) }

// programOf returns the name of the program of a token.
func programOf(token string) string {
	name, _, _ := strings.Cut(token, ".")
	return name
}

// encodeResults returns the results of a step as JSON. Errors: TooLarge.
func encodeResults(results []toolcalls.Result) (string, error) {
	if results == nil {
		results = []toolcalls.Result{}
	}
	text, err := json.Marshal(results)
	if err != nil {
		return "", fault.Wrap(fault.Internal, "librechat.results", err)
	}
	if len(text) > maxResults {
		return "", fault.New(fault.TooLarge, "librechat.results",
			"the results of a step have at most %d bytes", maxResults)
	}
	return string(text), nil
}
