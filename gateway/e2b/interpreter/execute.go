package interpreter

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// executeRequest is the body of POST /execute.
type executeRequest struct {
	Code     string            `json:"code"`
	Context  string            `json:"context_id"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env_vars"`
}

// kernel checks the request and returns the kernel that it is for.
func (p executeRequest) kernel() (kernelID, error) {
	const op = "interpreter.execute"
	if p.Context != "" && p.Language != "" {
		return kernelID{}, fault.New(fault.InvalidArgument, op,
			"a request has context_id or language, not both")
	}
	if len(p.Code) > protocol.MaxCode {
		return kernelID{}, fault.New(fault.TooLarge, op, "code has at most %d bytes",
			protocol.MaxCode)
	}
	if err := checkEnvironment(p.Env); err != nil {
		return kernelID{}, err
	}
	if p.Context != "" {
		return ofContext(p.Context)
	}
	return ofLanguage(p.Language), nil
}

// execute runs code and sends its output as lines of JSON.
func (s *server) execute(w http.ResponseWriter, r *http.Request) error {
	var p executeRequest
	if err := decode(r, &p); err != nil {
		return err
	}
	id, err := p.kernel()
	if err != nil {
		return err
	}
	leave, err := s.countStream(sandbox.TargetOf(r.Context()).Session)
	if err != nil {
		return err
	}
	e, err := s.start(r.Context(), id, p)
	if err != nil {
		leave()
		_, ofContext := errors.AsType[*answer](err) // the sandbox runs
		if !ofContext && sandbox.TargetOf(r.Context()).Recent && sandbox.Gone(err) {
			panic(http.ErrAbortHandler) // the caller looks the sandbox up, and answers
		}
		return err
	}
	defer e.stop()
	if !s.cfg.Go(func() { defer leave(); e.follow() }) {
		leave()
		e.client.Close()
		return fault.New(fault.Restarting, "interpreter.execute", "the server is restarting")
	}
	if err := stream(w, r, e.batches); err != nil {
		surface.CallOf(r).Err = err
		return nil
	}
	return e.failed // e.follow has closed the batches
}

// stream sends batches of lines as they come, until the channel is closed. It receives a batch only
// after the connection has taken the one before. The header, the count of executions and the result
// wait for the end of the code, but not for long. The end of the code goes out with the end of the
// response. So a client reads all of a short execution at once. Errors: Canceled if the client
// disconnected.
func stream(w http.ResponseWriter, r *http.Request, batches <-chan []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK) // the client's timeout for the request ends with the header
	control := http.NewResponseController(w)
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	head := time.NewTimer(headDelay)
	defer head.Stop()
	for waits, ended := true, false; ; {
		if !waits && !ended {
			if err := control.Flush(); err != nil {
				return surface.ErrGone()
			}
		}
		var text []byte
		select {
		case batch, ok := <-batches:
			if !ok {
				return nil
			}
			text, waits = batch, waits && mayWait(batch)
			ended = bytes.HasSuffix(batch, []byte(endLine))
		case <-head.C:
			waits = false
			continue
		case <-tick.C:
			text = []byte(`{"type":"keepalive"}` + "\n")
		case <-r.Context().Done():
			return surface.ErrGone()
		}
		if _, err := w.Write(text); err != nil {
			return surface.ErrGone()
		}
	}
}

// mayWait reports whether a batch has no other lines than the count of executions and the result of
// the code, which the end of the code follows at once.
func mayWait(batch []byte) bool {
	for line := range bytes.Lines(batch) {
		if !bytes.HasPrefix(line, []byte(countPrefix)) &&
			!bytes.HasPrefix(line, []byte(mainPrefix)) {
			return false
		}
	}
	return true
}

// start queues the code, with a cell before and after it if it has an environment of its own.
func (s *server) start(ctx context.Context, id kernelID, p executeRequest) (*execution, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var set, restore string
	if len(p.Env) > 0 {
		language, err := s.languageOf(ctx, id)
		if err != nil {
			return nil, err
		}
		set, restore = environment(language, p.Env)
	}
	var cells []protocol.Execute
	own := 0
	queue := func(code string, silent bool) {
		if code == "" && silent {
			return
		}
		if !silent {
			own = len(cells)
		}
		cells = append(cells, protocol.Execute{
			Key: "e2b-" + rand.Text(), Code: code, Silent: silent, NoInput: true,
			// Others may have queued code in the same kernel, which does not depend on this.
			KeepGoing: true,
		})
	}
	queue(set, true)
	queue(p.Code, false)
	queue(restore, true)
	client, numbers, err := s.attachAndQueue(ctx, sandbox.TargetOf(ctx), id, cells...)
	if err != nil {
		return nil, err
	}
	e := newExecution(s.cfg.Base, client)
	e.cell = numbers[own]
	return e, nil
}

// languageOf returns the language of a context.
func (s *server) languageOf(ctx context.Context, id kernelID) (string, error) {
	if id.language != "" {
		return id.language, nil
	}
	k, _, err := s.find(ctx, id.name)
	return k.Language, err
}
