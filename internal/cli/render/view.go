// Package render shows the records of a kernel on a terminal or in a pipe.
package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// View shows a kernel's records on a terminal or in a pipe. It is safe for
// concurrent use.
type View struct {
	Out, Err io.Writer
	// Figures is the directory for images. If it is empty, images are only named.
	Figures string
	Colour  bool

	mu    sync.Mutex // guards all below, and writing
	open  bool       // the last line has no end yet
	saved int
}

// escape matches the sequences that colour tracebacks.
var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

func (v *View) write(w io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	v.open = b[len(b)-1] != '\n'
	if _, err := w.Write(b); err != nil {
		return fault.Wrap(fault.Canceled, "view.write", err)
	}
	return nil
}

// EndLine ends a line that the output left incomplete, so that a prompt begins on a new line. In a
// pipe it adds nothing to a program's output.
func (v *View) EndLine() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open && v.Colour {
		_ = v.write(v.Out, []byte("\n"))
	}
}

// Record shows one record. It returns a cell's request for input, if the record is one.
func (v *View) Record(r frame.Record) (*message.InputRequest, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch r.Kind {
	case frame.KindStdout:
		return nil, v.write(v.Out, r.Payload)
	case frame.KindStderr:
		return nil, v.write(v.Err, r.Payload)
	case frame.KindGap:
		var g frame.Gap
		_ = json.Unmarshal(r.Payload, &g)
		return nil, v.note("%d bytes of output are no longer there", g.Bytes)
	case frame.KindEvent:
		var e struct {
			Event   string `json:"event"`
			Message string `json:"message"`
		}
		_ = json.Unmarshal(r.Payload, &e)
		// A terminal has the event resize, which has nothing to show.
		if e.Message == "" && strings.HasPrefix(e.Event, "re") && e.Event != "resize" {
			e.Message = "the kernel was restarted; its variables are lost"
		}
		if e.Message == "" {
			return nil, nil
		}
		return nil, v.note("%s", e.Message)
	case frame.KindMessage:
		return v.message(r.Payload)
	}
	return nil, nil
}

func (v *View) note(format string, args ...any) error {
	if v.open && v.Colour {
		if err := v.write(v.Err, []byte("\n")); err != nil {
			return err
		}
	}
	return v.write(v.Err, []byte("[sandgate: "+fmt.Sprintf(format, args...)+"]\n"))
}

func (v *View) message(payload []byte) (*message.InputRequest, error) {
	var m message.Message
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, fault.Wrap(fault.Malformed, "view.message", err)
	}
	switch m.Type {
	case message.ExecuteResultType, message.DisplayDataType:
		var b message.Bundle
		if err := json.Unmarshal(m.Content, &b); err != nil {
			return nil, fault.Wrap(fault.Malformed, "view.message", err)
		}
		return nil, v.bundle(b)
	case message.ErrorType:
		var e message.Error
		if err := json.Unmarshal(m.Content, &e); err != nil {
			return nil, fault.Wrap(fault.Malformed, "view.message", err)
		}
		return nil, v.traceback(e)
	case message.ClearOutputType:
		if v.Colour {
			return nil, v.write(v.Out, []byte("\r\x1b[2K"))
		}
	case message.InputRequestType:
		ask := new(message.InputRequest)
		if err := json.Unmarshal(m.Content, ask); err != nil {
			return nil, fault.Wrap(fault.Malformed, "view.message", err)
		}
		return ask, nil
	case message.ExecuteReplyType:
		var r message.ExecuteReply
		if json.Unmarshal(m.Content, &r) == nil && r.Status == "aborted" {
			return nil, v.note("not run, because a cell before it failed")
		}
	}
	return nil, nil
}

func (v *View) traceback(e message.Error) error {
	text := strings.Join(e.Traceback, "\n")
	if text == "" {
		text = e.EName + ": " + e.EValue
	}
	switch {
	case !v.Colour:
		text = escape.ReplaceAllString(text, "")
	case !strings.Contains(text, "\x1b["):
		text = "\x1b[31m" + text + "\x1b[0m"
	}
	if v.open && v.Colour {
		text = "\n" + text
	}
	return v.write(v.Err, []byte(strings.TrimSuffix(text, "\n")+"\n"))
}

// bundle shows the plainest form of a rich result, and names the others.
func (v *View) bundle(b message.Bundle) error {
	var types []string
	for t := range b.Data {
		types = append(types, t)
	}
	slices.Sort(types)
	shown := false
	if text := textOf(b.Data["text/plain"]); text != "" {
		if v.open {
			text = "\n" + text
		}
		if err := v.write(v.Out, []byte(strings.TrimSuffix(text, "\n")+"\n")); err != nil {
			return err
		}
		shown = true
	}
	for _, t := range types {
		sub, isImage := strings.CutPrefix(t, "image/")
		switch {
		case isImage:
			if err := v.image(t, sub, b.Data[t]); err != nil {
				return err
			}
		case !shown && t != "text/plain":
			if err := v.note("%s, which a terminal cannot show", t); err != nil {
				return err
			}
		}
	}
	return nil
}

// textOf reads a value that is text, in one piece or in lines.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []string
	_ = json.Unmarshal(raw, &parts)
	return strings.Join(parts, "")
}

func (v *View) image(mime, sub string, raw json.RawMessage) error {
	text := textOf(raw)
	data := []byte(text)
	if sub != "svg+xml" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text),
			"")); err != nil {
			return v.note("%s that cannot be read", mime)
		}
	}
	size := fmt.Sprintf("%d KiB", (len(data)+1023)/1024)
	if v.Figures == "" {
		return v.note("%s, %s; --save-figures DIRECTORY saves it", mime, size)
	}
	if err := os.MkdirAll(v.Figures, 0o755); err != nil {
		return console.FileError(err)
	}
	ending := strings.TrimSuffix(sub, "+xml")
	for _, r := range ending {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			ending = "img" // the kernel chooses the ending, and must not choose a path
			break
		}
	}
	// Use a free number, so that earlier figures are kept.
	for {
		v.saved++
		path := filepath.Join(v.Figures, fmt.Sprintf("figure-%d.%s", v.saved, ending))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return console.FileError(err)
		}
		_, err = f.Write(data)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return console.FileError(err)
		}
		return v.note("%s, %s, saved as %s", mime, size, path)
	}
}
