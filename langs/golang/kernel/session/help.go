package session

import (
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/langs/golang/kernel/front"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

// help answers complete, inspect and is_complete.
func (s *Session) help(q wire.Request, r *wire.Reply) {
	at := byteOffset(q.Code, q.Cursor)
	switch q.Op {
	case "is_complete":
		r.IsComplete, r.Indent = front.IsComplete(q.Code)
	case "complete":
		s.mu.Lock()
		list, start, end := s.front.Complete(q.Code, at)
		s.mu.Unlock()
		r.Start, r.End = utf8.RuneCountInString(q.Code[:start]),
			utf8.RuneCountInString(q.Code[:end])
		for _, m := range list {
			r.Matches = append(r.Matches, wire.Match{Text: m.Text, Type: m.Type})
		}
	case "inspect":
		s.mu.Lock()
		x, ok := s.front.Inspect(q.Code, at)
		s.mu.Unlock()
		if !ok {
			return
		}
		r.Found, r.Data = true, s.page(x, q.Detail)
	}
}

// page returns the text about a name.
func (s *Session) page(x front.Subject, detail int) map[string]any {
	parts := []string{x.Signature}
	mark := []string{"```go\n" + x.Signature + "\n```"}
	if x.Variable != "" {
		if v := s.short(x.Variable); v != "" {
			parts = append(parts, "value: "+v)
			mark = append(mark, "```go\n"+v+"\n```")
		}
	}
	if x.Doc != "" {
		parts, mark = append(parts, x.Doc), append(mark, x.Doc)
	}
	if x.Source != "" && (detail > 0 || x.Doc == "") {
		parts, mark = append(parts, x.Source), append(mark, "```go\n"+x.Source+"\n```")
	}
	return map[string]any{
		"text/plain":    clip(strings.Join(parts, "\n\n"), maxTraceback),
		"text/markdown": clip(strings.Join(mark, "\n\n"), maxTraceback),
	}
}

// byteOffset returns the offset after n code points of a text.
func byteOffset(text string, n int) int {
	for i := range text {
		if n <= 0 {
			return i
		}
		n--
	}
	return len(text)
}
