package interpreter

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
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
// after the connection has taken the one before. Errors: Canceled if the client disconnected.
func stream(w http.ResponseWriter, r *http.Request, batches <-chan []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK) // the client's timeout for the request ends with the header
	control := http.NewResponseController(w)
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		if err := control.Flush(); err != nil {
			return surface.ErrGone()
		}
		var text []byte
		select {
		case batch, ok := <-batches:
			if !ok {
				return nil
			}
			text = batch
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

// start queues the code, with a cell before and after it if it has an environment of its own.
func (s *server) start(ctx context.Context, id kernelID, p executeRequest) (*execution, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	t := sandbox.TargetOf(ctx)
	client, err := s.attach(ctx, t, id)
	if err != nil {
		return nil, err
	}
	var set, restore string
	if len(p.Env) > 0 {
		language, err := languageOf(client, t.Session, id)
		if err != nil {
			client.Close()
			return nil, err
		}
		set, restore = environment(language, p.Env)
	}
	e := newExecution(s.cfg.Base, client)
	queue := func(code string, silent bool) uint32 {
		if code == "" && silent || err != nil {
			return 0
		}
		var cell uint32
		cell, err = client.Execute(ctx, protocol.Execute{
			Key: "e2b-" + rand.Text(), Code: code, Silent: silent, NoInput: true,
			// Others may have queued code in the same kernel, which does not depend on this.
			KeepGoing: true,
		})
		return cell
	}
	queue(set, true)
	e.cell = queue(p.Code, false)
	queue(restore, true)
	if err != nil {
		client.Close()
		return nil, known(id, err)
	}
	return e, nil
}

// languageOf returns the language of a kernel.
func languageOf(client *kernelclient.Client, session string, id kernelID) (string, error) {
	if id.language != "" {
		return id.language, nil
	}
	var all protocol.ChannelList
	err := client.Request(protocol.OpChannelList, protocol.SessionRef{Session: session}, &all)
	if err != nil {
		return "", err
	}
	for _, c := range all.Channels {
		if c.ID == id.channel {
			return c.Language, nil
		}
	}
	return "", noContext(id.name)
}
