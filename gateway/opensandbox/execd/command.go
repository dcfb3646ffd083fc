package execd

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/gateway/processlog"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// tag is the tag of the processes of commands in the background, with the time of their start.
const tag = "opensandbox."

// command is the body of a request that runs a command.
type command struct {
	Command    string            `json:"command"`
	Cwd        string            `json:"cwd"`
	Background bool              `json:"background"`
	Timeout    int64             `json:"timeout"`
	Env        map[string]string `json:"envs"`
}

// command runs a command and sends its output, or starts one that continues.
func (h handler) command(w http.ResponseWriter, r *http.Request) error {
	var q command
	if err := decode(r, &q); err != nil {
		return err
	}
	if strings.TrimSpace(q.Command) == "" {
		return fault.Invalid("execd.command", "command", "a command is needed")
	}
	if q.Background {
		return h.startCommand(w, r, &q)
	}
	no := false
	c, err := h.cfg.Commands.Start(r.Context(), r, protocol.ExecRequest{
		Session: sessionOf(r), Cmd: q.Command, Cwd: q.Cwd, Env: q.Env, Files: &no,
		TimeoutMS:      h.timeout(q.Timeout, exec.DefaultTimeout).Milliseconds(),
		MaxOutputBytes: maxOutput,
	})
	if err != nil {
		return err
	}
	defer c.Abandon()
	surface.CallOf(r).Err = stream(h, w, r, c.Events(), commandEvents)
	return nil
}

// commandEvents translates an event of a command.
func commandEvents(e protocol.ExecEvent) []event {
	switch e.Type {
	case "start":
		return []event{{Type: "init", Text: e.Channel}}
	case "stdout", "stderr":
		return []event{{Type: e.Type, Text: e.Text}}
	case "done":
		if e.Status == "ok" {
			return []event{{Type: "execution_complete", Elapsed: max(1, int64(e.ElapsedMS))}}
		}
		f := &failure{Name: "CommandExecError", Value: e.Status, Traceback: []string{e.Status}}
		if e.ExitCode != nil && e.Status != "timeout" {
			f.Value = strconv.Itoa(*e.ExitCode)
		}
		return []event{{Type: "error", Error: f}}
	}
	return nil
}

// startCommand starts a command that continues, and answers with its id.
func (h handler) startCommand(w http.ResponseWriter, r *http.Request, q *command) error {
	argv := []string{"bash", "-c", q.Command}
	if limit := h.timeout(q.Timeout, h.cfg.Timeout); limit > 0 {
		argv = append([]string{
			"timeout", "-k", "5", strconv.FormatFloat(limit.Seconds(), 'f', 3, 64),
		}, argv...)
	}
	var ch protocol.Channel
	if err := h.call(r, protocol.OpChannelOpen, protocol.ChannelOpen{
		Session: sessionOf(r), Kind: "process", Argv: argv, Cwd: q.Cwd, Env: q.Env,
		Tag: tag + strconv.FormatInt(time.Now().UnixMilli(), 10),
	}, &ch); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_ = send(w, http.NewResponseController(w), event{Type: "init", Text: ch.ID},
		event{Type: "execution_complete", Elapsed: 1}) // a client that has gone needs no answer
	return nil
}

// endCommand ends the command that the query names.
func (h handler) endCommand(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	if !surface.ValidID(id) || !strings.HasPrefix(id, "p") {
		return errNoCommand()
	}
	if err := h.call(r, protocol.OpChannelClose,
		protocol.ChannelRef{Session: sessionOf(r), Channel: id}, nil); err != nil {
		return missingCommand(err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func errNoCommand() error {
	return fault.New(fault.NotFound, "execd.command", "there is no such command")
}

func missingCommand(err error) error {
	if fault.Is(err, fault.NotFound) {
		return errNoCommand()
	}
	return err
}

// attach attaches to a command in the background, from an offset. Errors: NotFound.
func (h handler) attach(r *http.Request, id string, offset int64) (*processclient.Client, error) {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Call)
	defer cancel()
	link, err := h.cfg.Node.Open(ctx, whoOf(r))
	if err != nil {
		return nil, err
	}
	c, err := processclient.Attach(ctx, link, protocol.Attach{
		Session: sessionOf(r), Channel: id, Offset: offset, ReadOnly: true,
	})
	if err != nil {
		return nil, missingCommand(err)
	}
	if !strings.HasPrefix(c.View().Tag, tag) {
		c.Close()
		return nil, errNoCommand()
	}
	return c, nil
}

// readCommand answers to status/ID and ID/logs.
func (h handler) readCommand(w http.ResponseWriter, r *http.Request) error {
	a, b := r.PathValue("a"), r.PathValue("b")
	switch {
	case a == "status":
		return h.commandStatus(w, r, b)
	case b == "logs":
		return h.commandLogs(w, r, a)
	}
	return errNoCommand()
}

// commandStatus answers with the state of a command in the background.
func (h handler) commandStatus(w http.ResponseWriter, r *http.Request, id string) error {
	c, err := h.attach(r, id, -1)
	if err != nil {
		return err
	}
	c.Close()
	v := c.View()
	started, _ := strconv.ParseInt(strings.TrimPrefix(v.Tag, tag), 10, 64)
	a := map[string]any{
		"id": v.ID, "running": v.Exit == nil, "exit_code": nil,
		"started_at": time.UnixMilli(started).UTC().Format(time.RFC3339Nano),
	}
	if n := len(v.Argv); n > 0 {
		a["content"] = v.Argv[n-1]
	}
	if v.Exit != nil {
		a["exit_code"] = v.Exit.Code
		if v.Exit.Code != 0 {
			a["error"] = "exit status " + strconv.Itoa(v.Exit.Code)
		}
	}
	return surface.WriteJSON(w, http.StatusOK, a)
}

// commandLogs answers with the output of a command in the background, from a cursor.
func (h handler) commandLogs(w http.ResponseWriter, r *http.Request, id string) error {
	cursor, err := strconv.ParseInt(r.URL.Query().Get("cursor"), 10, 64)
	if err != nil || cursor < 0 {
		cursor = 0
	}
	c, err := h.attach(r, id, cursor)
	if err != nil {
		return err
	}
	out, err := processlog.Read(r.Context(), c, maxOutput, 0)
	if err != nil {
		return err
	}
	_, next := c.Position()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("EXECD-COMMANDS-TAIL-CURSOR", strconv.FormatInt(next, 10))
	_, _ = w.Write([]byte(out.Stdout + out.Stderr)) // a client that has gone needs no answer
	return nil
}
