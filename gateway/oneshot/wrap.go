package oneshot

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// mimeOutcome is the type of the display with the outcome of a program.
const mimeOutcome = "application/vnd.sandgate.program+json"

// maxInline is the largest program that is a part of its cell, in bytes of JSON. A larger one is a
// file, because a cell has at most protocol.MaxCode.
const maxInline = protocol.MaxCode / 2

// programFile has a program that is not a part of its cell.
const programFile = "/tmp/.sandgate-program.json"

//go:embed program.py
var wrapPython string

//go:embed program.js
var wrapJavaScript string

// wrapped is a program as the wrappers read it.
type wrapped struct {
	Type      string          `json:"type"`
	File      string          `json:"file"`
	Module    string          `json:"module"`
	Code      string          `json:"code"`
	Call      bool            `json:"call"`
	Arguments json.RawMessage `json:"arguments"`
	Helpers   string          `json:"helpers"`
}

// request returns the run of a program.
func (p *Program) request() (protocol.RunRequest, error) {
	const op = "oneshot.request"
	w := wrapped{
		Type: mimeOutcome, File: "main.py", Module: "__main__", Code: p.Code,
		Arguments: json.RawMessage("{}"),
	}
	if p.Language == JavaScript {
		w.File = "main.js"
	}
	if c := p.Call; c != nil {
		w.Call, w.Helpers = true, c.Helpers
		if c.Module != "" {
			w.Module = c.Module
		}
		if len(c.Arguments) > 0 {
			w.Arguments = c.Arguments
		}
	}
	text, err := json.Marshal(w)
	if err != nil {
		return protocol.RunRequest{}, fault.Invalid(op, "arguments", "they are not valid JSON")
	}
	if len(text) > MaxCode {
		return protocol.RunRequest{}, fault.New(fault.TooLarge, op,
			"the program and its arguments have %d bytes, the limit is %d", len(text), MaxCode)
	}
	create := conversation.PolicyOf(p.Settings).Create(
		map[string]string{conversation.LabelSurface: p.Surface})
	q := protocol.RunRequest{
		Language: p.Language, Template: create.Template, Limits: create.Limits,
		Labels: create.Labels, Network: create.Network, TimeoutMS: p.timeout().Milliseconds(),
		MaxOutputBytes: p.MaxOutput, MaxFileBytes: p.MaxFiles,
	}
	if p.Offline {
		q.Network = nil
	}
	encoded := ""
	if len(text) > maxInline {
		q.Files = []protocol.RunFile{{Path: programFile, Content: string(text)}}
	} else {
		encoded = base64.StdEncoding.EncodeToString(text)
	}
	q.Code = cell(p.Language, encoded)
	return q, nil
}

// cell returns the code that runs a program. It has the program as base64; empty means that
// programFile has it.
func cell(language, encoded string) string {
	var b strings.Builder
	if language == JavaScript {
		b.WriteString(wrapJavaScript)
		if encoded == "" {
			b.WriteString("await sandgateProgram(require('node:fs').readFileSync('" + programFile + "', 'utf8'));\n")
		} else {
			b.WriteString("await sandgateProgram(Buffer.from('" + encoded + "', 'base64').toString());\n")
		}
		return b.String()
	}
	b.WriteString(wrapPython)
	if encoded == "" {
		b.WriteString("\nwith open('" + programFile + "', encoding='utf-8') as _f: _f = _f.read()\n" +
			"_sandgate_program(_f)\n")
	} else {
		b.WriteString("\n_sandgate_program(__import__('base64').b64decode('" + encoded + "').decode())\n")
	}
	return b.String()
}
