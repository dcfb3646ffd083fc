package execd

import (
	"context"
	"net/http"
	"strings"

	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// shells are shells whose folder and variables stay. Each is a context of Bash.
type shells struct{ handler }

// open opens a shell whose folder and variables stay.
func (h shells) open(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Cwd string `json:"cwd"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	k := kernel{Language: "bash"}
	if err := h.openContext(r, &k); err != nil {
		return err
	}
	if q.Cwd != "" {
		if err := h.changeFolder(r, k, q.Cwd); err != nil {
			return err
		}
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"session_id": k.ID})
}

// quote returns a text as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// changeFolder changes the folder of a shell.
func (h shells) changeFolder(r *http.Request, k kernel, folder string) error {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Call)
	defer cancel()
	running, err := h.cfg.Runner.Start(ctx, run.Spec{
		Who: whoOf(r), Kernel: k.ID, NoFiles: true, Request: protocol.RunRequest{
			Session: sessionOf(r), Language: k.Language, Code: "cd -- " + quote(folder),
		},
	})
	if err != nil {
		return err
	}
	defer running.Stop()
	if !h.cfg.Go(running.Follow) {
		running.Stop()
		running.Follow()
		return fault.New(fault.Restarting, "execd.session", "the server is restarting")
	}
	result, err := running.Collect(ctx)
	if err == nil && result.Status != "ok" {
		err = fault.Invalid("execd.session", "cwd", "the shell cannot change to %.200q", folder)
	}
	return err
}

// run runs a command in a shell.
func (h shells) run(w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Command string `json:"command"`
		Cwd     string `json:"cwd"`
		Timeout int64  `json:"timeout"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	if strings.TrimSpace(q.Command) == "" {
		return fault.Invalid("execd.session", "command", "a command is needed")
	}
	k, err := h.context(r, r.PathValue("id"))
	if err != nil {
		return err
	}
	if q.Cwd != "" {
		if err := h.changeFolder(r, k, q.Cwd); err != nil {
			return err
		}
	}
	return h.runCode(w, r, k, q.Command, h.timeout(q.Timeout, codeTimeout))
}
