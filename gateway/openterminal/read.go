package openterminal

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/mime"
)

const (
	maxText = 256 << 10 // bytes of a text that read_file returns
	maxScan = 64 << 20  // bytes that it reads to count the lines
)

// textAnswer is the answer of read_file for a text.
type textAnswer struct {
	Path       string `json:"path"`
	TotalLines int    `json:"total_lines"`
	Content    string `json:"content"`
	// Truncated is true if the content ends before the last line that was asked for, and NextLine is
	// the line after it.
	Truncated bool `json:"truncated,omitempty"`
	NextLine  int  `json:"next_line,omitempty"`
}

// readFile reads lines of a text or of the text of a document, or a picture.
func readFile(w http.ResponseWriter, r *http.Request, c *call) error {
	name, err := c.path("path", query(r, "path"))
	if err != nil {
		return err
	}
	first, err := number(r, "start_line", 1, 1<<40)
	if err != nil {
		return err
	}
	last, err := number(r, "end_line", 1<<40, 1<<40)
	if err != nil {
		return err
	}
	in, err := c.open(r, name)
	if err != nil {
		return err
	}
	defer in.done()
	text := bufio.NewReaderSize(in, 64<<10)
	head, err := text.Peek(8 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	a := textAnswer{Path: name}
	if !isText(head) {
		if documentKind(name) != "" {
			return document(w, r, c, a, first, last)
		}
		return picture(w, in, text, head)
	}
	if err := a.read(text, first, last); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, a)
}

// picture answers with a picture. Errors: Unsupported for another content.
func picture(w http.ResponseWriter, in *content, from io.Reader, head []byte) error {
	const op = "openterminal.read"
	kind := http.DetectContentType(head)
	if !strings.HasPrefix(kind, "image/") {
		return fault.New(fault.Unsupported, op, "the file is no text and no picture: %s, %d bytes; "+
			"use a program to read it", kind, in.info.Size)
	}
	if in.info.Size > maxPicture {
		return fault.New(fault.TooLarge, op, "only pictures of up to %d bytes can be read", maxPicture)
	}
	data, err := io.ReadAll(io.LimitReader(from, maxPicture))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	setSafe(w.Header())
	_, _ = w.Write(data) // a client that has gone needs no answer
	return nil
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

// read reads the lines from first to last, and counts all.
func (a *textAnswer) read(text *bufio.Reader, first, last int) error {
	var b strings.Builder
	begins := true
	for scanned := 0; ; {
		part, err := text.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if scanned += len(part); scanned > maxScan {
			return fault.New(fault.TooLarge, "openterminal.read", "only files of up to %d bytes can "+
				"be read; use run_command with sed or tail", maxScan)
		}
		if begins && len(part) > 0 {
			a.TotalLines++
		}
		begins = err == nil
		if a.TotalLines >= first && a.TotalLines <= last && !a.Truncated {
			if b.Len()+len(part) > maxText {
				a.Truncated, a.NextLine = true, a.TotalLines
				part = part[:maxText-b.Len()]
			}
			b.Write(part)
		}
		if errors.Is(err, io.EOF) {
			break
		}
	}
	a.Content = strings.ToValidUTF8(b.String(), "\uFFFD")
	return nil
}

// viewFile sends a file as it is, for a page of the client.
func viewFile(w http.ResponseWriter, r *http.Request, c *call) error {
	name, err := c.path("path", query(r, "path"))
	if err != nil {
		return err
	}
	return c.send(w, r, name)
}

// serveFile is viewFile with the path of the file in the path of the request, so that a page finds
// its files.
func serveFile(w http.ResponseWriter, r *http.Request, c *call) error {
	name, err := c.path("path", "/"+r.PathValue("*"))
	if err != nil {
		return err
	}
	return c.send(w, r, name)
}

func (c *call) send(w http.ResponseWriter, r *http.Request, name string) error {
	in, err := c.open(r, name)
	if err != nil {
		return err
	}
	defer in.done()
	w.Header().Set("Content-Type", mime.TypeOf(name))
	w.Header().Set("Content-Length", sizeText(in.info.Length))
	setSafe(w.Header())
	surface.SendBody(w, r, in)
	return nil
}

// setSafe keeps a page of a user from acting as a page of this server or of the client.
func setSafe(h http.Header) {
	h.Set("Content-Security-Policy",
		"sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
