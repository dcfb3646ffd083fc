package onlyboxes

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/onlyboxes/export"
	"github.com/sandgate/sandgate/gateway/processlog"
	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The capabilities of tasks.
const (
	capabilityExec     = "terminalExec"
	capabilityResource = "terminalResource"
)

// The states of a task.
const (
	statusRunning   = "running"
	statusSucceeded = "succeeded"
	statusFailed    = "failed"
	statusCanceled  = "canceled"
	statusTimeout   = "timeout"
)

// The bounds of waiting for a task.
const (
	defaultWait = 1500 * time.Millisecond
	maxWait     = time.Minute
)

// snapshot is a task at one moment.
type snapshot struct {
	ID         string     `json:"task_id,omitempty"`
	Capability string     `json:"capability"`
	Status     string     `json:"status"`
	Result     any        `json:"result,omitempty"`
	Error      *taskError `json:"error,omitempty"`
	URL        string     `json:"status_url,omitempty"`
}

type taskError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// submission is the body of a request that begins a task.
type submission struct {
	Capability string          `json:"capability"`
	Input      json.RawMessage `json:"input"`
	Mode       string          `json:"mode"`
	Wait       int64           `json:"wait_ms"`
	Timeout    int64           `json:"timeout_ms"`
}

// wait returns how long a request waits for its task.
func (q *submission) wait(timeout time.Duration) time.Duration {
	switch {
	case q.Mode == "async":
		return 0
	case q.Mode == "sync" && q.Wait == 0:
		return min(timeout+endGrace, maxWait)
	case q.Wait == 0:
		return defaultWait
	}
	return min(time.Duration(min(q.Wait, maxWait.Milliseconds()))*time.Millisecond, maxWait)
}

// submit begins a task, and waits for its end if the client asks for that.
func (s *Surface) submit(w http.ResponseWriter, r *http.Request) error {
	const op = "onlyboxes.task"
	var q submission
	if err := decode(r, &q); err != nil {
		return err
	}
	if q.Mode != "" && q.Mode != "sync" && q.Mode != "async" && q.Mode != "auto" {
		return fault.Invalid(op, "mode", "it is sync, async or auto")
	}
	if q.Wait < 0 || q.Timeout < 0 {
		return fault.Invalid(op, "wait_ms", "times are in milliseconds, from 0")
	}
	switch q.Capability {
	case capabilityExec:
		return s.submitCommand(w, r, &q)
	case capabilityResource:
		return s.export(w, r, &q)
	}
	return fault.Invalid(op, "capability", "it is %s or %s", capabilityExec, capabilityResource)
}

// decodeInput decodes the input of a task.
func (q *submission) decodeInput(v any) error {
	if len(q.Input) == 0 || json.Unmarshal(q.Input, v) != nil {
		return fault.Invalid("onlyboxes.task", "input", "it is an object of the capability")
	}
	return nil
}

func (s *Surface) submitCommand(w http.ResponseWriter, r *http.Request, q *submission) error {
	var c command
	if err := q.decodeInput(&c); err != nil {
		return err
	}
	if c.Timeout == 0 {
		c.Timeout = q.Timeout
	}
	if err := s.check(&c); err != nil {
		return err
	}
	ctx, who := r.Context(), surface.CallOf(r).Who
	v, err := s.findSession(ctx, who, &c)
	if err != nil {
		return err
	}
	client, err := s.start(ctx, who, v.ID, &c)
	if err != nil {
		return err
	}
	t := task{session: c.Session, channel: client.Channel()}
	out, err := processlog.Read(ctx, client, maxOutput, q.wait(c.timeout))
	if err != nil {
		return gone(r, err) // the task continues
	}
	a := s.snapshot(t, out)
	if x, ok := a.Result.(*result); ok {
		x.Created = v.Created
	}
	if a.Status == statusRunning {
		return surface.WriteJSON(w, http.StatusAccepted, a)
	}
	return surface.WriteJSON(w, httpStatus(a.Status), a)
}

// httpStatus returns the status of the response with a task that its client has waited for.
func httpStatus(status string) int {
	switch status {
	case statusTimeout:
		return http.StatusGatewayTimeout
	case statusCanceled:
		return http.StatusConflict
	}
	return http.StatusOK
}

// snapshot returns a task with the output that it has.
func (s *Surface) snapshot(t task, out processlog.Output) snapshot {
	id := t.id()
	a := snapshot{
		ID: id, Capability: capabilityExec, Status: statusRunning,
		URL: "/api/v1/tasks/" + id,
	}
	if out.Exit == nil {
		a.Result = map[string]any{"session_id": t.session, "stdout": out.Stdout, "stderr": out.Stderr}
		return a
	}
	switch {
	case out.Exit.Code == timedOut:
		a.Status, a.Error = statusTimeout, &taskError{"timeout", "the time of the task is over"}
	case out.Exit.Reason == "closed":
		a.Status, a.Error = statusCanceled, &taskError{"canceled", "the task was cancelled"}
	case out.Exit.Code < 0:
		a.Status, a.Error = statusFailed, &taskError{"sandbox_lost", "the sandbox has ended"}
	default:
		a.Status = statusSucceeded
	}
	a.Result = s.result(&command{Session: t.session}, false, out)
	return a
}

// task names the process of a command.
type task struct{ session, channel string }

// id returns the task as clients name it.
func (t task) id() string {
	return t.channel + "." + base64.RawURLEncoding.EncodeToString([]byte(t.session))
}

func errNoTask() error {
	return fault.New(fault.NotFound, "onlyboxes.task", "there is no such task")
}

// parseTask reads the id of a task. Errors: NotFound.
func parseTask(id string) (t task, err error) {
	channel, name, _ := strings.Cut(id, ".")
	session, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil || len(session) == 0 || !surface.ValidID(channel) {
		return t, errNoTask()
	}
	return task{string(session), channel}, nil
}

// find finds the session of the task of a request. Errors: NotFound.
func (s *Surface) find(r *http.Request) (task, string, error) {
	t, err := parseTask(r.PathValue("id"))
	if err != nil {
		return t, "", err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Call)
	defer cancel()
	v, err := conversation.Sessions{Node: s.cfg.Node}.Find(ctx, surface.CallOf(r).Who,
		place(t.session))
	if fault.Is(err, fault.NotFound) || err == nil && v.State == "lost" {
		err = errNoTask()
	}
	return t, v.ID, err
}

// read returns a task at this moment. Errors: NotFound.
func (s *Surface) read(ctx context.Context, who noderpc.Principal, t task, session string,
) (snapshot, error) {
	start, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(start, who)
	if err != nil {
		return snapshot{}, err
	}
	client, err := processclient.Attach(start, link, protocol.Attach{
		Session: session, Channel: t.channel, ReadOnly: true,
	})
	if fault.Is(err, fault.NotFound) {
		return s.readCanceled(ctx, who, t, session)
	}
	if err != nil {
		return snapshot{}, err
	}
	if client.View().Tag != tag {
		client.Close()
		return snapshot{}, errNoTask()
	}
	out, err := processlog.Read(ctx, client, maxOutput, 0)
	return s.snapshot(t, out), err
}

// readCanceled returns a task whose process was ended. Errors: NotFound if there was none.
func (s *Surface) readCanceled(ctx context.Context, who noderpc.Principal, t task, session string,
) (snapshot, error) {
	err := s.call(ctx, who, protocol.OpFileStat, protocol.FileStat{
		FileRef: t.canceled(session),
	}, nil)
	if fault.Is(err, fault.NotFound) {
		err = errNoTask()
	}
	return s.snapshot(t, processlog.Output{Exit: &protocol.Exit{Code: -1, Reason: "closed"}}), err
}

// canceled returns the file that a session has for a cancelled task. The process and its output are
// gone.
func (t task) canceled(session string) protocol.FileRef {
	return protocol.FileRef{Session: session, Path: "/tmp/.onlyboxes-canceled/" + t.channel}
}

// task answers with a task.
func (s *Surface) task(w http.ResponseWriter, r *http.Request) error {
	t, session, err := s.find(r)
	if err != nil {
		return err
	}
	a, err := s.read(r.Context(), surface.CallOf(r).Who, t, session)
	if err != nil {
		return gone(r, err)
	}
	return surface.WriteJSON(w, http.StatusOK, a)
}

// cancel ends a task. The answer to a task that has ended is 409.
func (s *Surface) cancel(w http.ResponseWriter, r *http.Request) error {
	t, session, err := s.find(r)
	if err != nil {
		return err
	}
	who := surface.CallOf(r).Who
	a, err := s.read(r.Context(), who, t, session)
	if err != nil {
		return gone(r, err)
	}
	if a.Status != statusRunning {
		return surface.WriteJSON(w, http.StatusConflict, a)
	}
	if _, err := sessionfile.Write(r.Context(), s.cfg.Node, who, protocol.FileWrite{
		FileRef: t.canceled(session),
	}, strings.NewReader(""), s.cfg.Call); err != nil {
		return gone(r, err)
	}
	if err := s.call(r.Context(), who, protocol.OpChannelClose,
		protocol.ChannelRef{Session: session, Channel: t.channel}, nil); err != nil {
		return err
	}
	a.Status = statusCanceled
	return surface.WriteJSON(w, http.StatusOK, a)
}

// export sends a file of a session to a signed address.
func (s *Surface) export(w http.ResponseWriter, r *http.Request, q *submission) error {
	const op = "onlyboxes.export"
	var in struct {
		Action  string            `json:"action"`
		Session string            `json:"session_id"`
		Path    string            `json:"file_path"`
		URL     string            `json:"signed_url"`
		Headers map[string]string `json:"headers"`
	}
	if err := q.decodeInput(&in); err != nil {
		return err
	}
	if in.Action != "export" {
		return fault.Invalid(op, "action", "it is export")
	}
	if err := surface.CheckPath(op, in.Path); err != nil {
		return err
	}
	if err := s.exporter.Check(in.URL, in.Headers); err != nil {
		return err
	}
	who := surface.CallOf(r).Who
	ctx, cancel := context.WithTimeout(r.Context(), s.timeout(q.Timeout))
	defer cancel()
	v, err := s.findSession(ctx, who, &command{Session: in.Session})
	if err != nil {
		return err
	}
	f, err := sessionfile.Read(ctx, s.cfg.Node, who, protocol.FileRead{
		FileRef: protocol.FileRef{Session: v.ID, Path: in.Path},
	})
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if f.Part.Length > 0 && f.Part.Length > export.MaxFile {
		return fault.New(fault.TooLarge, op, "a file that is exported has at most %d bytes", export.MaxFile)
	}
	kind := mime.TypeByExtension(path.Ext(in.Path))
	if kind == "" {
		kind = "application/octet-stream"
	}
	if err := s.exporter.Export(ctx, in.URL, in.Headers, f, f.Part.Length, kind); err != nil {
		return gone(r, err)
	}
	return surface.WriteJSON(w, http.StatusOK, snapshot{
		Capability: capabilityResource, Status: statusSucceeded,
		Result: map[string]any{
			"session_id": in.Session, "file_path": in.Path, "mime_type": kind,
			"size_bytes": f.Part.Length,
		},
	})
}
