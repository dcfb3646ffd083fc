package execd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// contexts is the folder with a file for each context: its name is the id and the key of the kernel,
// its content the kernel's channel and the language. Programs can change it, for their own sandbox.
const contexts = "/tmp/.opensandbox/contexts"

// codeTimeout is the time of code that asks for none, and maxTimeout the longest.
const (
	codeTimeout = 2 * time.Minute
	maxTimeout  = 10 * time.Minute
)

// kernel is a context as clients name it.
type kernel struct {
	ID       string `json:"id,omitempty"`
	Language string `json:"language"`

	channel string
}

// code runs code in a context, or in the kernel of a language that has none.
func (h handler) code(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Code    string `json:"code"`
		Context kernel `json:"context"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	if strings.TrimSpace(q.Code) == "" {
		return fault.Invalid("execd.code", "code", "code is needed")
	}
	k := q.Context
	if k.ID != "" {
		var err error
		if k, err = h.context(r, k.ID); err != nil {
			return err
		}
	}
	return h.runCode(w, r, k, q.Code, codeTimeout)
}

// runCode runs code in a kernel and sends its events.
func (h handler) runCode(w http.ResponseWriter, r *http.Request, k kernel, code string,
	timeout time.Duration,
) error {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Call)
	defer cancel()
	running, err := h.cfg.Runner.Start(ctx, run.Spec{
		Who: whoOf(r), Kernel: k.ID, NoFiles: true,
		Request: protocol.RunRequest{
			Session: sessionOf(r), Language: k.Language, Code: code, MaxOutputBytes: maxOutput,
			TimeoutMS: min(timeout, maxTimeout).Milliseconds(),
		},
	})
	if err != nil {
		return err
	}
	defer running.Stop()
	if !h.cfg.Go(running.Follow) {
		running.Stop()
		running.Follow()
		return fault.New(fault.Restarting, "execd.code", "the server is restarting")
	}
	failed := false
	surface.CallOf(r).Err = stream(h, w, r, running.Events(), func(e protocol.RunEvent) []event {
		failed = failed || e.Type == "error"
		return codeEvents(e, k.ID, failed)
	})
	return nil
}

// codeEvents translates an event of code. The id of an execution is that of its context, or of the
// channel of its kernel. Clients interrupt it by this id.
func codeEvents(e protocol.RunEvent, id string, failed bool) []event {
	switch e.Type {
	case "start":
		if id == "" {
			id = e.Channel
		}
		return []event{{Type: "init", Text: id}}
	case "stdout", "stderr":
		return []event{{Type: e.Type, Text: e.Text}}
	case "display", "result":
		return []event{{Type: "result", Results: values(e.Data)}}
	case "error":
		return []event{{Type: "error", Error: &failure{e.EName, e.EValue, e.Traceback}}}
	case "done":
		events := []event{{Type: "execution_count", Count: max(1, e.Count)}}
		switch {
		case e.Status == "ok" || failed && e.Status == "error":
			return append(events, event{
				Type: "execution_complete", Elapsed: max(1, int64(e.ElapsedMS)),
			})
		case e.ExitCode != nil && e.Status == "error":
			return append(events, event{Type: "error", Error: &failure{
				Name: "CommandExecError", Value: strconv.Itoa(*e.ExitCode),
				Traceback: []string{"exit status " + strconv.Itoa(*e.ExitCode)},
			}})
		}
		return append(events, event{Type: "error", Error: &failure{
			Name: "ExecutionError", Value: e.Status, Traceback: []string{e.Status},
		}})
	}
	return nil
}

// values returns a value in its formats. Texts are strings, others JSON.
func values(data map[string]json.RawMessage) map[string]any {
	all := map[string]any{}
	for mime, raw := range data {
		all[mime] = raw
		if mime == "text/plain" {
			all["text"] = raw
		}
	}
	return all
}

// createContext opens a kernel of its own.
func (h handler) createContext(w http.ResponseWriter, r *http.Request) error {
	var k kernel
	if err := decode(r, &k); err != nil {
		return err
	}
	if err := h.openContext(r, &k); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, k)
}

func (h handler) openContext(r *http.Request, k *kernel) error {
	k.ID = "c-" + rand.Text()
	var ch protocol.Channel
	if err := h.call(r, protocol.OpChannelOpen, protocol.ChannelOpen{
		Session: sessionOf(r), Kind: "kernel", Key: k.ID, Language: k.Language,
	}, &ch); err != nil {
		return err
	}
	if k.Language == "" {
		k.Language = ch.Language
	}
	_, err := sessionfile.Write(r.Context(), h.cfg.Node, whoOf(r), protocol.FileWrite{
		FileRef: contextFile(r, k.ID),
	}, strings.NewReader(ch.ID+" "+k.Language), h.cfg.Call)
	return err
}

func contextFile(r *http.Request, id string) protocol.FileRef {
	return protocol.FileRef{Session: sessionOf(r), Path: path.Join(contexts, id)}
}

// context returns a context. Errors: NotFound.
func (h handler) context(r *http.Request, id string) (k kernel, err error) {
	missing := fault.New(fault.NotFound, "execd.context", "there is no such context")
	if !surface.ValidID(id) {
		return k, missing
	}
	f, err := sessionfile.Read(r.Context(), h.cfg.Node, whoOf(r),
		protocol.FileRead{FileRef: contextFile(r, id), Length: 200})
	if fault.Is(err, fault.NotFound) {
		return k, missing
	}
	if err != nil {
		return k, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 200))
	channel, language, _ := strings.Cut(string(text), " ")
	return kernel{ID: id, Language: language, channel: channel}, err
}

func (h handler) getContext(w http.ResponseWriter, r *http.Request) error {
	k, err := h.context(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, k)
}

// contexts returns the contexts of a language; all for an empty one.
func (h handler) contexts(r *http.Request) ([]kernel, error) {
	language := r.URL.Query().Get("language")
	all := []kernel{}
	var list protocol.FileListing
	err := h.call(r, protocol.OpFileList, protocol.FileList{
		FileRef: protocol.FileRef{Session: sessionOf(r), Path: contexts}, Limit: maxPaths,
	}, &list)
	if fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field != "" {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range list.Entries {
		k, err := h.context(r, path.Base(e.Path))
		if err != nil {
			return nil, err
		}
		if language == "" || k.Language == language {
			all = append(all, k)
		}
	}
	return all, nil
}

func (h handler) listContexts(w http.ResponseWriter, r *http.Request) error {
	all, err := h.contexts(r)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

func (h handler) removeContexts(w http.ResponseWriter, r *http.Request) error {
	all, err := h.contexts(r)
	if err != nil {
		return err
	}
	for _, k := range all {
		if err := h.closeContext(r, k); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (h handler) removeContext(w http.ResponseWriter, r *http.Request) error {
	k, err := h.context(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := h.closeContext(r, k); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (h handler) closeContext(r *http.Request, k kernel) error {
	err := h.call(r, protocol.OpChannelClose,
		protocol.ChannelRef{Session: sessionOf(r), Channel: k.channel}, nil)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return h.call(r, protocol.OpFileRemove,
		protocol.FileRemove{FileRef: contextFile(r, k.ID)}, nil)
}

// interrupt interrupts the code of a context, or of a kernel without one.
func (h handler) interrupt(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	channel := id
	if strings.HasPrefix(id, "c-") {
		k, err := h.context(r, id)
		if err != nil {
			return err
		}
		channel = k.channel
	}
	if !surface.ValidID(channel) || !strings.HasPrefix(channel, "k") {
		return fault.New(fault.NotFound, "execd.interrupt", "there is no such execution")
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Call)
	defer cancel()
	link, err := h.cfg.Node.Open(ctx, whoOf(r))
	if err != nil {
		return err
	}
	c, err := kernelclient.Attach(ctx, link, kernelclient.Target{
		Session: sessionOf(r), Channel: channel, Offset: -1,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Request(protocol.OpInterrupt, protocol.Interrupt{}, nil); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
