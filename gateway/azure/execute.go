package azure

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// request is one execution. Clients send more fields; they have no effect.
type request struct {
	Code          string `json:"code"`
	Shell         string `json:"shellCommand"`
	InputType     string `json:"codeInputType"`
	ExecutionType string `json:"executionType"`
	Seconds       int    `json:"timeoutInSeconds"`
}

// properties is the answer of versions before newShape.
type properties struct {
	ID              string          `json:"$id"`
	Status          string          `json:"status"`
	Stdout          string          `json:"stdout"`
	Stderr          string          `json:"stderr"`
	Result          json.RawMessage `json:"result"`
	ExecutionResult json.RawMessage `json:"executionResult"`
	Milliseconds    int64           `json:"executionTimeInMilliseconds"`
}

// execution is the answer of later versions.
type execution struct {
	ID         string `json:"id"`
	Identifier string `json:"identifier"`
	Session    string `json:"sessionId"`
	Type       string `json:"executionType"`
	// Status is Succeeded or Failed; the exit status for a command of the shell.
	Status string `json:"status"`
	Result result `json:"result"`
}

type result struct {
	Stdout       string          `json:"stdout"`
	Stderr       string          `json:"stderr"`
	Result       json.RawMessage `json:"executionResult"`
	Milliseconds int64           `json:"executionTimeInMilliseconds"`
}

const synchronous = "Synchronous"

// runBefore runs code for versions before newShape, whose bodies have the field properties.
func (s *Surface) runBefore(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Properties request `json:"properties"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	_, out, err := s.runRequest(r, q.Properties)
	if err != nil {
		return err
	}
	p := properties{
		ID: rand.Text(), Status: "Success", Stdout: out.stdout, Stderr: out.stderr,
		Result: out.value, ExecutionResult: out.value, Milliseconds: out.elapsed.Milliseconds(),
	}
	if out.failed {
		p.Status = "Failure"
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{"properties": p})
}

// runNow runs code, or a command of the shell.
func (s *Surface) runNow(w http.ResponseWriter, r *http.Request) error {
	var q request
	if err := decode(r, &q); err != nil {
		return err
	}
	t, out, err := s.runRequest(r, q)
	if err != nil {
		return err
	}
	e := execution{
		ID: rand.Text(), Identifier: t.place.Conversation, Session: t.place.Conversation,
		Type: synchronous, Status: "Succeeded", Result: result{
			out.stdout, out.stderr, out.value, out.elapsed.Milliseconds(),
		},
	}
	switch {
	case q.Shell != "":
		e.Status = strconv.Itoa(out.exit)
	case out.failed:
		e.Status = "Failed"
	}
	return surface.WriteJSON(w, http.StatusOK, e)
}

// runRequest runs the code or the command of a request in its session.
func (s *Surface) runRequest(r *http.Request, q request) (target, outcome, error) {
	t, err := s.targetOf(r)
	if err == nil {
		err = q.check()
	}
	if err != nil {
		return t, outcome{}, err
	}
	session, err := s.ensure(r.Context(), t)
	if err != nil {
		return t, outcome{}, err
	}
	if q.Shell != "" {
		out, err := s.command(r, session, q)
		return t, out, err
	}
	timeout := s.timeout(q)
	v, err := s.cfg.Cells.Cell(r.Context(), run.Spec{
		Who: runnerOf(t.who), NoFiles: true, Request: protocol.RunRequest{
			Session: session, Code: q.Code, Language: t.language, MaxOutputBytes: maxOutput,
			TimeoutMS: timeout.Milliseconds(),
		},
	})
	if err != nil {
		return t, outcome{}, err
	}
	out, err := outcomeOf(v, timeout)
	return t, out, err
}

func (q request) check() error {
	const op = "azure.execute"
	switch {
	case q.Code == "" && q.Shell == "":
		return fault.Invalid(op, "code", "there is no code")
	case len(q.Code) > protocol.MaxCode || len(q.Shell) > protocol.MaxCode:
		return fault.New(fault.TooLarge, op, "code has at most %d bytes", protocol.MaxCode)
	case q.InputType != "" && !strings.EqualFold(q.InputType, "inline"):
		return fault.New(fault.Unsupported, op, "code is inline")
	case q.ExecutionType != "" && !strings.EqualFold(q.ExecutionType, synchronous):
		return fault.New(fault.Unsupported, op, "executions are synchronous")
	case q.Seconds < 0:
		return fault.Invalid(op, "timeoutInSeconds", "a time is from 1 s")
	}
	return nil
}

// timeout is how long an execution may take.
func (s *Surface) timeout(q request) time.Duration {
	most := s.cfg.Settings.Timeout
	if most == 0 {
		most = run.MaxTimeout
	}
	if q.Seconds > 0 && q.Seconds < int(most/time.Second) {
		return time.Duration(q.Seconds) * time.Second
	}
	return most
}

// command runs a command of the shell.
func (s *Surface) command(r *http.Request, session string, q request) (outcome, error) {
	none := false
	timeout := s.timeout(q)
	running, err := s.cfg.Commands.Start(r.Context(), r, protocol.ExecRequest{
		Session: session, Cmd: q.Shell, Cwd: folder, TimeoutMS: timeout.Milliseconds(),
		MaxOutputBytes: maxOutput, Files: &none, OnDisconnect: protocol.DisconnectCancel,
	})
	if err != nil {
		return outcome{}, err
	}
	defer running.Abandon()
	var out commandOutput
	for {
		select {
		case batch, ok := <-running.Events():
			if !ok {
				return out.outcome(timeout)
			}
			for _, e := range batch {
				out.add(e)
			}
		case <-r.Context().Done():
			return outcome{}, surface.ErrGone()
		}
	}
}
