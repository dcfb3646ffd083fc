package fault_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/golden"
)

// errorsHead is the text above the table of docs/reference/errors.md.
const errorsHead = `# Errors

This page is generated from ` + "`fault.Table()`" + `. To change it, change the table and run:

` + "```sh" + `
go test ./fault -run TestErrorsPage -update
` + "```" + `

An error has a kind, and the kind has the same meaning everywhere:

- Over HTTP, the kind decides the status. The body is ` + "`{\"error\": {\"kind\", \"message\", …}}`" + `.
- On the WebSocket, the kind is in ` + "`error`" + ` of a reply. When the error ends the connection, the kind
  decides the close code. After a code from 3000 to 3499 a client reconnects. After a code from
  3500 on it does not.
- On the command line, the kind decides the exit code.

Kinds are only ever added. [protocol.md](../protocol.md#8-errors-and-close-codes) has the other
close codes.

| kind | HTTP | close | exit | what to do |
|---|---|---|---|---|
`

// TestErrorsPage compares docs/reference/errors.md with the table of kinds.
func TestErrorsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(errorsHead)
	for _, r := range fault.Table() {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d | %s |\n", r.Kind, r.HTTP, r.Close, r.Exit, r.Advice)
	}
	golden.Page(t, "../docs/reference/errors.md", b.String())
}
