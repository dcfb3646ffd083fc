package azure

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
)

// outcome is the end of an execution.
type outcome struct {
	stdout, stderr string
	// value is the JSON of the last expression, or of the last picture.
	value   json.RawMessage
	failed  bool
	exit    int
	elapsed time.Duration
}

// picture is the value of an execution that shows a picture.
type picture struct {
	Type   string          `json:"type"`
	Format string          `json:"format"`
	Data   json.RawMessage `json:"base64_data"`
}

// outcomeOf returns the outcome of a cell. Errors: that of a run which failed because of the server.
func outcomeOf(r protocol.RunResult, timeout time.Duration) (outcome, error) {
	o := outcome{
		stdout: r.Stdout, stderr: r.Stderr, failed: r.Status != "ok",
		elapsed: time.Duration(r.ElapsedMS * float64(time.Millisecond)),
	}
	o.value = valueOf(r.Results)
	switch {
	case r.Status == "timeout":
		o.explain(fmt.Sprintf("The execution was ended: it ran for over %s.", timeout))
	case r.Status == "lost":
		o.explain("The session was lost: memory or another limit was reached. The next run starts a new one.")
	case r.Fault != nil:
		return o, r.Fault.Err("azure.execute")
	case r.Error != nil && len(r.Error.Traceback) > 0:
		o.explain(kernelclient.Plain(strings.Join(r.Error.Traceback, "\n")))
	case r.Error != nil:
		o.explain(r.Error.EName + ": " + r.Error.EValue)
	}
	if r.TruncatedBytes > 0 {
		o.explain(fmt.Sprintf("%d bytes of output over the limit were left out.", r.TruncatedBytes))
	}
	return o, nil
}

// explain adds a line to stderr.
func (o *outcome) explain(line string) {
	if o.stderr != "" && !strings.HasSuffix(o.stderr, "\n") {
		o.stderr += "\n"
	}
	o.stderr += line + "\n"
}

// valueOf returns the value of an execution: a picture if the last value that was shown is one, a
// number, true or false as they are, and everything else as the text that the language shows. An
// execution without a value has an empty text.
func valueOf(shown []protocol.RunEvent) json.RawMessage {
	for i := len(shown) - 1; i >= 0; i-- {
		data := shown[i].Data
		for _, format := range []string{"png", "jpeg", "gif"} {
			if raw, ok := data["image/"+format]; ok {
				text, err := json.Marshal(picture{"image", format, raw})
				if err == nil {
					return text
				}
			}
		}
	}
	for i := len(shown) - 1; i >= 0; i-- {
		var text string
		if shown[i].Type != "result" || json.Unmarshal(shown[i].Data["text/plain"], &text) != nil {
			continue
		}
		return plainValue(text)
	}
	return json.RawMessage(`""`)
}

func plainValue(text string) json.RawMessage {
	switch text {
	case "True", "true":
		return json.RawMessage("true")
	case "False", "false":
		return json.RawMessage("false")
	}
	if len(text) < 64 && regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$`).MatchString(text) {
		return json.RawMessage(text)
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return raw
}

// commandOutput collects the events of a command.
type commandOutput struct {
	stdout, stderr strings.Builder
	done           protocol.ExecEvent
}

func (c *commandOutput) add(e protocol.ExecEvent) {
	switch e.Type {
	case "stdout":
		c.stdout.WriteString(e.Text)
	case "stderr":
		c.stderr.WriteString(e.Text)
	case "done":
		c.done = e
	}
}

// exitKilled is the exit status of a command that did not end by itself.
const exitKilled = 137

// outcome returns the outcome of the command.
func (c *commandOutput) outcome(timeout time.Duration) (outcome, error) {
	o := outcome{
		stdout: c.stdout.String(), stderr: c.stderr.String(), value: json.RawMessage(`""`),
		exit: exitKilled, elapsed: time.Duration(c.done.ElapsedMS * float64(time.Millisecond)),
	}
	if c.done.ExitCode != nil {
		o.exit = *c.done.ExitCode
	}
	switch {
	case c.done.Status == "timeout":
		o.exit = 124
		o.explain(fmt.Sprintf("The command was ended: it ran for over %s.", timeout))
	case c.done.Fault != nil:
		return o, c.done.Fault.Err("azure.command")
	}
	if c.done.TruncatedBytes > 0 {
		o.explain(fmt.Sprintf("%d bytes of output over the limit were left out.",
			c.done.TruncatedBytes))
	}
	o.failed = o.exit != 0
	return o, nil
}
