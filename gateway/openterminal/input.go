package openterminal

import (
	"crypto/rand"
	"net/http"
	"regexp"
	"strconv"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
)

// The characters that a terminal would turn into an interrupt and into the end of the input.
const (
	controlC = "\x03"
	controlD = "\x04"
)

// processInput passes input to a process.
func processInput(w http.ResponseWriter, r *http.Request, c *call) error {
	id, err := c.named(r)
	if err != nil {
		return err
	}
	var p struct {
		Input string `json:"input"`
	}
	if err := body(r, &p); err != nil {
		return err
	}
	switch text := unescape(p.Input); text {
	case "":
	case controlC:
		err = c.interrupt(r, id)
	default:
		end := text[len(text)-1:] == controlD
		if end {
			text = text[:len(text)-1]
		}
		err = c.processes().Input(r.Context(), protocol.Attach{
			Session: c.session.ID, Channel: id, Offset: -1, Writer: rand.Text(),
		}, []byte(text), end)
	}
	if err != nil {
		return noProcess(err, id)
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// interrupt sends SIGINT. The process may live on.
func (c *call) interrupt(r *http.Request, id string) error {
	return c.processes().Signal(r.Context(), c.session.ID, id, "SIGINT")
}

// escape matches an escape sequence that a model has written as text.
var escape = regexp.MustCompile(`\\(?:n|r|t|\\|x[0-9a-fA-F]{2})`)

// unescape replaces escape sequences by their characters, as Open Terminal does.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(s string) string {
		switch s[1] {
		case 'n':
			return "\n"
		case 'r':
			return "\r"
		case 't':
			return "\t"
		case 'x':
			n, _ := strconv.ParseUint(s[2:], 16, 8) // it is matched
			return string(rune(n))
		}
		return `\`
	})
}
