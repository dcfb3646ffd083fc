package openterminal

import (
	"bufio"
	_ "embed"
	"net/http"
	"path"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol/fault"
)

// documentProgram prints the text of a document. It runs in the session, because documents are data
// of users.
//
//go:embed document.py
var documentProgram string

// documentKind returns the kind of a document by its name; empty if documentProgram does not know it.
func documentKind(name string) string {
	switch kind := strings.ToLower(strings.TrimPrefix(path.Ext(name), ".")); kind {
	case "pdf", "docx", "xlsx", "pptx":
		return kind
	}
	return ""
}

// document answers with lines of the text of a document. Errors: InvalidArgument if it cannot be
// read.
func document(w http.ResponseWriter, r *http.Request, c *call, a textAnswer, first, last int,
) error {
	text, problem, code, err := c.output(r, []string{
		"python3", "-I", "-c", documentProgram, documentKind(a.Path), a.Path,
	})
	if err != nil {
		return err
	}
	if code != 0 {
		lines := strings.Split(strings.TrimSpace(problem), "\n")
		return fault.Invalid("openterminal.document", "path", "the text of the document cannot be "+
			"read: %s", kernelclient.Clip(lines[len(lines)-1], maxLine))
	}
	if err := a.read(bufio.NewReader(strings.NewReader(text)), first, last); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, a)
}
