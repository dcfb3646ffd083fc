package ragflow

import (
	"encoding/json"
	"path"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/protocol"
)

// answer is the body of the answer to a run.
type answer struct {
	Status    string     `json:"status"`
	Stdout    string     `json:"stdout"`
	Stderr    string     `json:"stderr"`
	ExitCode  int        `json:"exit_code"`
	Detail    *string    `json:"detail"`
	TimeMS    float64    `json:"time_used_ms"`
	MemoryKB  *int64     `json:"memory_used_kb"`
	Limit     *string    `json:"resource_limit_type"`
	Denied    *string    `json:"unauthorized_access_type"`
	Failure   *string    `json:"runtime_error_type"`
	Artifacts []artifact `json:"artifacts"`
	Result    *result    `json:"result"`
}

// artifact is a file of the program.
type artifact struct {
	Name    string `json:"name"`
	MIME    string `json:"mime_type"`
	Size    int64  `json:"size"`
	Content string `json:"content_b64"`
}

// result is what main has returned.
type result struct {
	Present bool            `json:"present"`
	Value   json.RawMessage `json:"value"`
	Type    string          `json:"type"`
}

// The values of status, and of its reasons.
const (
	statusSuccess = "success"
	statusFailed  = "program_error"
	statusLimit   = "resource_limit_exceeded"
	statusRuntime = "runtime_error"

	limitTime     = "time"
	limitMemory   = "memory"
	limitOutput   = "output"
	failureExit   = "nonzero_exit"
	failureSignal = "signalled"
)

// answerOf returns the answer for an outcome. Stdout is empty unless it is a success, as RAGFlow
// expects.
func answerOf(o oneshot.Outcome) answer {
	a := answer{
		Status: statusSuccess, Stderr: o.Stderr, ExitCode: o.ExitCode, Artifacts: []artifact{},
		TimeMS: float64(o.Elapsed) / float64(time.Millisecond),
	}
	if o.MemoryKB > 0 {
		a.MemoryKB = &o.MemoryKB
	}
	limit := func(reason string, code int) {
		a.Status, a.Limit, a.ExitCode = statusLimit, &reason, code
		a.Stderr = line(o.Stderr, o.Message)
	}
	fail := func(status, reason string) {
		a.Status, a.Failure = status, &reason
		if o.Traceback == "" || !strings.Contains(o.Stderr, o.Traceback) {
			a.Stderr = line(o.Stderr, o.Traceback+o.Message)
		}
	}
	switch {
	case o.Status == oneshot.OK:
		a.Stdout = o.Stdout
		a.Artifacts = artifactsOf(o.Files)
		if o.Value != nil {
			a.Result = &result{true, o.Value, "json"}
		}
	case o.Status == oneshot.TimedOut:
		limit(limitTime, -o.ExitCode)
	case o.Status == oneshot.Flooded:
		limit(limitOutput, o.ExitCode)
	case o.Status == oneshot.Killed && strings.Contains(o.Message, "memory"):
		limit(limitMemory, -o.ExitCode)
	case o.Name == "MemoryError":
		limit(limitMemory, o.ExitCode)
	case o.Status == oneshot.Killed:
		fail(statusRuntime, failureSignal)
	default:
		fail(statusFailed, failureExit)
	}
	return a
}

// line appends a line to a text.
func line(text, more string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + more
}

// home is the working folder of programs, and artifacts the folder in it for artifacts.
const (
	home      = "/home/user"
	artifacts = home + "/artifacts"
)

// types returns the types of artifacts by the extensions of their names.
func types() map[string]string {
	return map[string]string{
		".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml",
		".pdf": "application/pdf", ".csv": "text/csv", ".json": "application/json",
		".html": "text/html",
	}
}

// typeOf returns the type of an artifact; empty for another file.
func typeOf(name string) string { return types()[strings.ToLower(path.Ext(name))] }

// chooser returns a function that chooses the artifacts among the created files. It chooses at most
// maxArtifacts files with different names.
func chooser() func(protocol.CreatedFile) bool {
	chosen := map[string]bool{}
	return func(f protocol.CreatedFile) bool {
		folder, name := path.Split(f.Path)
		folder = path.Clean(folder)
		if f.Change == protocol.ChangeRemoved || f.Size == 0 || f.Size > maxArtifact ||
			folder != home && folder != artifacts || strings.HasPrefix(name, ".") ||
			typeOf(name) == "" || chosen[name] || len(chosen) == maxArtifacts {
			return false
		}
		chosen[name] = true
		return true
	}
}

// artifactsOf returns the files whose content is there.
func artifactsOf(files []protocol.CreatedFile) []artifact {
	all := []artifact{}
	for _, f := range files {
		if !f.Omitted {
			name := path.Base(f.Path)
			all = append(all, artifact{name, typeOf(name), f.Size, f.Content})
		}
	}
	return all
}
