package templates

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxLog is the largest number of log entries in a response, and the default.
const maxLog = 1000

// The states of a build.
const (
	buildWaiting = "waiting"
	buildError   = "error"
)

// entry is a line of a build's log.
type entry struct {
	Timestamp string `json:"timestamp"`
	Level     string `json:"level"`
	Message   string `json:"message"`
	Step      string `json:"step,omitempty"`
}

// reason says why a build failed.
type reason struct {
	Message string  `json:"message"`
	Step    string  `json:"step,omitempty"`
	Entries []entry `json:"logEntries"`
}

// statusBody is the state of a build.
type statusBody struct {
	Template string   `json:"templateID"`
	Build    string   `json:"buildID"`
	Status   string   `json:"status"`
	Logs     []string `json:"logs"`
	Entries  []entry  `json:"logEntries"`
	Reason   *reason  `json:"reason,omitempty"`
}

// BuildID returns the id of a template's last build. Clients expect the form of a UUID.
func BuildID(t protocol.Template) string {
	if id, ok := strings.CutPrefix(t.Spec.Description, descriptionOf); ok {
		return id
	}
	sum := sha256.Sum256([]byte(t.Name + "\x00" + strconv.FormatInt(t.CreatedMS, 10)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// Status returns the state of a template's build.
func Status(t protocol.Template) string {
	if t.State == "failed" {
		return buildError
	}
	return t.State
}

// state returns the template of a build; found is false for a build that waits for its steps.
// Errors: NotFound for a build that was replaced, or never existed.
func (b *Builder) state(r *http.Request) (t protocol.Template, found bool, err error) {
	_, q, unknown := b.find(r)
	names := []string{Native(Param(r, "id"))}
	if unknown == nil {
		names = q.names
	}
	// The state of a build with several tags is that of the one that is the least far.
	for i, name := range names {
		one, err := b.template(r, name)
		if err == nil && BuildID(one) != r.PathValue("build") {
			err = fault.New(fault.NotFound, "e2b.template", "the template has another build now")
		}
		if fault.Is(err, fault.NotFound) && unknown == nil && !q.started {
			return t, false, nil
		}
		if err != nil {
			return t, false, err
		}
		if i == 0 || t.State == "ready" {
			t = one
		}
	}
	return t, true, nil
}

// status answers with the state of a build and its log from an offset, in lines.
func (b *Builder) status(w http.ResponseWriter, r *http.Request) error {
	offset, err := number(r, "logsOffset", 0, 1<<30)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", maxLog, maxLog)
	if err != nil {
		return err
	}
	t, found, err := b.state(r)
	if err != nil {
		return err
	}
	s := statusBody{
		Template: Param(r, "id"), Build: r.PathValue("build"), Status: buildWaiting,
		Logs: []string{}, Entries: []entry{},
	}
	if found {
		s.Status = Status(t)
		all := entries(t)
		if s.Status == buildError {
			s.Reason = &reason{Message: t.Error, Step: lastStep(all), Entries: []entry{}}
		}
		all = all[min(offset, len(all)):]
		s.Entries = all[:min(limit, len(all))]
	}
	return surface.WriteJSON(w, http.StatusOK, s)
}

// logs answers with the log of a build.
func (b *Builder) logs(w http.ResponseWriter, r *http.Request) error {
	limit, err := number(r, "limit", maxLog, maxLog)
	if err != nil {
		return err
	}
	direction := r.URL.Query().Get("direction")
	if !slices.Contains([]string{"", "forward", "backward"}, direction) {
		return invalid("direction", "it is forward or backward")
	}
	t, found, err := b.state(r)
	if err != nil {
		return err
	}
	all := []entry{}
	if found {
		all = entries(t)
	}
	if direction == "backward" {
		slices.Reverse(all)
	}
	return surface.WriteJSON(w, http.StatusOK, struct {
		Logs []entry `json:"logs"`
	}{all[:min(limit, len(all))]})
}

// entries returns the lines of a build's log. The last line of a build that runs may not be
// complete, and is left out.
func entries(t protocol.Template) []entry {
	lines := strings.Split(t.Log, "\n")
	if last := len(lines) - 1; lines[last] == "" || t.State == "building" {
		lines = lines[:last]
	}
	at := time.UnixMilli(t.CreatedMS).UTC().Format(time.RFC3339)
	all, step := []entry{}, ""
	for _, line := range lines {
		if _, number, ok := strings.Cut(line, stepMark); ok && strings.HasPrefix(line, "$ ") {
			step = number
		}
		all = append(all, entry{at, "info", line, step})
	}
	return all
}

// lastStep returns the number of the step that ran last.
func lastStep(all []entry) string {
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].Step
}
