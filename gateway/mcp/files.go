package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/gateway/created"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of files.
const (
	readLines = 2000     // lines that read_file returns without an argument
	maxLines  = 10000    // lines that it returns at most
	maxLine   = 8 << 10  // bytes of one line that it returns
	maxScan   = 64 << 20 // bytes that it reads to find the lines
	maxEdit   = 4 << 20  // bytes of a file that edit_file changes
)

// readFile reads lines of a text, or a picture. Other files become links.
func readFile(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Path    string `json:"path"`
		Start   int    `json:"start_line"`
		Count   int    `json:"line_count"`
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := checkPath(p.Path); err != nil {
		return nil, err
	}
	count, err := within("line_count", p.Count, readLines, maxLines)
	if err != nil {
		return nil, err
	}
	s, err := c.find(ctx, p.Session)
	if err != nil {
		return nil, err
	}
	content, info, done, err := c.open(ctx, s.id, p.Path)
	if err != nil {
		return nil, err
	}
	defer done()
	head, err := content.Peek(8 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	kind := http.DetectContentType(head)
	switch {
	case isPicture(kind) && info.Size <= maxPicture:
		data, err := io.ReadAll(io.LimitReader(content, maxPicture))
		if err != nil {
			return nil, err
		}
		out := answer(fmt.Sprintf("%s: a picture of %d bytes", p.Path, len(data)),
			map[string]any{"path": p.Path, "size": len(data), "mime_type": kind})
		out.Content = append(out.Content, &sdk.ImageContent{Data: data, MIMEType: kind})
		return out, nil
	case !isText(head):
		return c.linkTo(s.id, p.Path, kind, info.Size)
	}
	text, err := readText(content, max(p.Start, 1), count)
	if err != nil {
		return nil, err
	}
	text.Path, text.Size = p.Path, info.Size
	return answer(text.render(), text), nil
}

// checkPath checks the path of a file.
func checkPath(p string) error {
	if err := required("path", p); err != nil {
		return err
	}
	return surface.CheckPath("mcp.path", p)
}

func isPicture(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// isText reports whether the beginning of a file is UTF-8 without NUL.
func isText(head []byte) bool {
	for n := 0; n < utf8.UTFMax && n < len(head); n++ {
		if utf8.Valid(head[:len(head)-n]) { // a character may be cut
			return bytes.IndexByte(head, 0) < 0
		}
	}
	return len(head) == 0
}

// open opens a file. done must be called.
func (c *call) open(ctx context.Context, session, name string,
) (content *bufio.Reader, info protocol.FilePart, done func(), err error) {
	start, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	link, err := c.cfg.Node.Open(start, c.who)
	if err != nil {
		return nil, info, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = link.Close() })
	done = func() {
		stop()
		_ = link.Close()
	}
	r, err := fileclient.Open(start, link, protocol.OpFileRead,
		protocol.FileRead{FileRef: file(session, name)}, &info)
	if err != nil {
		done()
		return nil, info, nil, err
	}
	return bufio.NewReaderSize(r, 64<<10), info, done, nil
}

// linkTo returns a link to a file that a model cannot read.
func (c *call) linkTo(session, name, mime string, size int64) (*sdk.CallToolResult, error) {
	l, err := c.cfg.Link(c.request, file(session, name), false, created.LinkLife)
	if err != nil {
		return nil, err
	}
	out := answer(fmt.Sprintf("%s is no text: %s, %d bytes. Read it with code, or give the user "+
		"this link, which is valid for an hour: %s", name, mime, size, l.URL),
		map[string]any{"path": name, "size": size, "mime_type": mime, "url": l.URL})
	out.Content = append(out.Content, &sdk.ResourceLink{
		URI: l.URL, Name: path.Base(name), MIMEType: mime, Size: &size,
	})
	return out, nil
}

// fileText is the structured result of read_file for a text.
type fileText struct {
	Path      string `json:"path"`
	Size      int64  `json:"size"`
	Content   string `json:"content"`
	StartLine int    `json:"start_line"`
	Lines     int    `json:"lines"`
	// NextLine is the next line to read; 0 at the end of the file.
	NextLine int `json:"next_line,omitempty"`
}

func (f fileText) render() string {
	if f.NextLine == 0 {
		if f.Content == "" {
			return "[no lines]"
		}
		return f.Content
	}
	return line(f.Content) + fmt.Sprintf("[the file continues at line %d]", f.NextLine)
}

// readText reads lines. It ends early at headText+tailText bytes.
func readText(r *bufio.Reader, start, count int) (fileText, error) {
	out := fileText{StartLine: start}
	var b strings.Builder
	for number, scanned := 1, 0; ; number++ {
		text, size, err := nextLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return out, err
		}
		if size == 0 {
			break
		}
		if scanned += size; scanned > maxScan {
			return out, fault.New(fault.TooLarge, "mcp.read_file",
				"only the first %d bytes of a file are read; use run_command with sed or tail",
				maxScan)
		}
		if number < start {
			continue
		}
		if out.Lines == count || b.Len()+len(text) > headText+tailText {
			out.NextLine = number
			break
		}
		b.WriteString(text)
		out.Lines++
	}
	out.Content = b.String()
	return out, nil
}

// nextLine reads a line with its end. The text has its first maxLine bytes, size counts all.
func nextLine(r *bufio.Reader) (text string, size int, err error) {
	var b []byte
	for {
		part, err := r.ReadSlice('\n')
		size += len(part)
		b = append(b, part[:min(len(part), maxLine-len(b))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		text = strings.ToValidUTF8(string(b), "\uFFFD")
		if size > maxLine {
			text += " [the line is cut]\n"
		}
		return text, size, err
	}
}

// writeFile writes a file, and creates its folders.
func writeFile(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var p struct {
		Path     string  `json:"path"`
		Content  *string `json:"content"`
		Encoding string  `json:"encoding"`
		Session  string  `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := checkPath(p.Path); err != nil {
		return nil, err
	}
	if p.Content == nil {
		return nil, required("content", "")
	}
	content := *p.Content
	switch p.Encoding {
	case "", "utf-8":
	case "base64":
		raw, err := base64.StdEncoding.DecodeString(content)
		if err != nil {
			return nil, fault.Invalid("mcp.write_file", "content", "the content is not base64")
		}
		content = string(raw)
	default:
		return nil, fault.Invalid("mcp.write_file", "encoding", "it is utf-8 or base64")
	}
	s, err := c.ensure(ctx, p.Session, "")
	if err != nil {
		return nil, err
	}
	if err := c.write(ctx, protocol.FileWrite{FileRef: file(s.id, p.Path)}, content); err != nil {
		return nil, err
	}
	return answer(fmt.Sprintf("%s has %d bytes now.", p.Path, len(content)),
		map[string]any{"path": p.Path, "size": len(content)}), nil
}

// editFile replaces a text in a file. A change of the file by others meanwhile is an error.
func editFile(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	const op = "mcp.edit_file"
	var p struct {
		Path    string `json:"path"`
		Old     string `json:"old_text"`
		New     string `json:"new_text"`
		All     bool   `json:"replace_all"`
		Session string `json:"session"`
	}
	if err := c.arguments(&p); err != nil {
		return nil, err
	}
	if err := checkPath(p.Path); err != nil {
		return nil, err
	}
	if err := required("old_text", p.Old); err != nil {
		return nil, err
	}
	s, err := c.find(ctx, p.Session)
	if err != nil {
		return nil, err
	}
	content, info, done, err := c.open(ctx, s.id, p.Path)
	if err != nil {
		return nil, err
	}
	defer done()
	data, err := io.ReadAll(io.LimitReader(content, maxEdit+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxEdit {
		return nil, fault.New(fault.TooLarge, op, "only files of up to %d bytes can be edited; "+
			"use run_command with sed", maxEdit)
	}
	text := string(data)
	found := strings.Count(text, p.Old)
	switch {
	case found == 0:
		return nil, fault.Invalid(op, "old_text", "old_text is not in the file; it must be the "+
			"same as in the file, with all spaces and line ends. Read the file first")
	case found > 1 && !p.All:
		return nil, fault.Invalid(op, "old_text", "old_text is in the file %d times; give more "+
			"of the text around it, or set replace_all", found)
	}
	text = strings.ReplaceAll(text, p.Old, p.New)
	if err := c.write(ctx, protocol.FileWrite{
		FileRef: file(s.id, p.Path), Mode: info.Mode & 0o777, IfMatch: info.ETag,
	}, text); err != nil {
		return nil, err
	}
	return answer(fmt.Sprintf("Replaced %d times in %s.", found, p.Path),
		map[string]any{"path": p.Path, "replacements": found, "size": len(text)}), nil
}
