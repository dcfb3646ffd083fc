package openterminal

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	maxPicture = 10 << 20 // bytes of a picture that read_file returns
	maxEdit    = 4 << 20  // bytes of a file that replace_file_content changes
)

// content is the open content of a file.
type content struct {
	io.Reader
	info protocol.FilePart
	done func()
}

// open opens a file. The caller calls done. Errors: NotFound.
func (c *call) open(r *http.Request, name string) (*content, error) {
	start, cancel := context.WithTimeout(r.Context(), c.cfg.Call)
	defer cancel()
	link, err := c.cfg.Node.Open(start, c.who)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(r.Context(), func() { _ = link.Close() })
	out := &content{done: func() {
		stop()
		_ = link.Close()
	}}
	out.Reader, err = fileclient.Open(start, link, protocol.OpFileRead,
		protocol.FileRead{FileRef: c.refOf(name)}, &out.info)
	if err != nil {
		out.done()
		return nil, err
	}
	return out, nil
}

// write writes a file, and creates its folders.
func (c *call) write(r *http.Request, p protocol.FileWrite, text io.Reader) (protocol.File, error) {
	var f protocol.File
	err := c.cfg.Upload(r.Context(), c.who, protocol.OpFileWrite, p, text, &f)
	return f, err
}

// displayFile says whether a file exists. The client shows it to its user.
func displayFile(w http.ResponseWriter, r *http.Request, c *call) error {
	name, err := c.path("path", query(r, "path"))
	if err != nil {
		return err
	}
	f, err := c.stat(r, name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK,
		map[string]any{"path": name, "exists": err == nil && f.Type == "file"})
}

// writeFile writes a text.
func writeFile(w http.ResponseWriter, r *http.Request, c *call) error {
	var p struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
	}
	if err := body(r, &p); err != nil {
		return err
	}
	name, err := c.path("path", p.Path)
	if err != nil {
		return err
	}
	if p.Content == nil {
		return fault.Invalid("openterminal.write", "content", "the parameter content is missing")
	}
	if _, err := c.write(r, protocol.FileWrite{FileRef: c.refOf(name)},
		strings.NewReader(*p.Content)); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{"path": name, "size": len(*p.Content)})
}

// replacement is one change of a text.
type replacement struct {
	Target      string `json:"target"`
	Replacement string `json:"replacement"`
	StartLine   int    `json:"start_line"`
	EndLine     int    `json:"end_line"`
	Multiple    bool   `json:"allow_multiple"`
}

// replaceContent changes a text. A change of the file by others meanwhile is an error.
func replaceContent(w http.ResponseWriter, r *http.Request, c *call) error {
	const op = "openterminal.replace"
	var p struct {
		Path         string        `json:"path"`
		Replacements []replacement `json:"replacements"`
	}
	if err := body(r, &p); err != nil {
		return err
	}
	name, err := c.path("path", p.Path)
	if err != nil {
		return err
	}
	in, err := c.open(r, name)
	if err != nil {
		return err
	}
	defer in.done()
	data, err := io.ReadAll(io.LimitReader(in, maxEdit+1))
	if err != nil {
		return err
	}
	if len(data) > maxEdit {
		return fault.New(fault.TooLarge, op, "only files of up to %d bytes can be changed; use "+
			"run_command with sed", maxEdit)
	}
	text := string(data)
	for _, x := range p.Replacements {
		if text, err = x.apply(text); err != nil {
			return err
		}
	}
	if _, err := c.write(r, protocol.FileWrite{
		FileRef: c.refOf(name), Mode: in.info.Mode & 0o777, IfMatch: in.info.ETag,
	}, strings.NewReader(text)); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{"path": name, "size": len(text)})
}

// apply returns the changed text. Errors: InvalidArgument without the target, or with several.
func (x replacement) apply(text string) (string, error) {
	const op = "openterminal.replace"
	if x.Target == "" {
		return "", fault.Invalid(op, "target", "the parameter target is missing")
	}
	before, part, after := lines(text, x.StartLine, x.EndLine)
	switch n := strings.Count(part, x.Target); {
	case n == 0:
		return "", fault.Invalid(op, "target", "target is not in the file; it must be the same as "+
			"in the file, with all spaces and line ends. Read the file first")
	case n > 1 && !x.Multiple:
		return "", fault.Invalid(op, "target", "target is in the file %d times; give more of the "+
			"text around it, or set allow_multiple", n)
	}
	return before + strings.ReplaceAll(part, x.Target, x.Replacement) + after, nil
}

// lines divides a text into the lines from first to last, and what is before and after them. 0 means
// the first or the last line of the text.
func lines(text string, first, last int) (before, part, after string) {
	from := lineStart(text, first)
	to := len(text)
	if last > 0 {
		to = max(from, lineStart(text, last+1))
	}
	return text[:from], text[from:to], text[to:]
}

// lineStart returns the offset of a line, from 1, or of the end.
func lineStart(text string, number int) int {
	at := 0
	for range number - 1 {
		n := strings.IndexByte(text[at:], '\n')
		if n < 0 {
			return len(text)
		}
		at += n + 1
	}
	return at
}
