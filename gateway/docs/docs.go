// Package docs is the surface of the documentation. The page about errors, to which answers of the
// server refer, has a section for each kind and each cause of package fault. The other pages are
// those of the repository for authors of programs. No page needs credentials.
package docs

import (
	"bytes"
	_ "embed"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	pages "github.com/sandgate/sandgate/docs"
	"github.com/sandgate/sandgate/gateway/native"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// errorsPage is the template of the page about errors.
//
//go:embed errors.html
var errorsPage string

// pagePolicy allows the page its own style and nothing else.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// Surface serves the pages.
type Surface struct {
	// OpenAPI is the description of the native interface.
	OpenAPI []byte
}

// kind is a section of the page.
type kind struct {
	fault.Row
	Causes []fault.CauseRow
}

func kinds() []kind {
	var all []kind
	for _, r := range fault.Table() {
		k := kind{Row: r}
		for _, c := range fault.Causes() {
			if c.Kind == r.Kind {
				k.Causes = append(k.Causes, c)
			}
		}
		all = append(all, k)
	}
	return all
}

// Routes returns the routes, which are all open.
func (s Surface) Routes() []surface.Route {
	tools := sync.OnceValues(func() ([]byte, error) { return native.Tools(s.OpenAPI) })
	open := func(path string, h surface.HandlerFunc) surface.Route {
		return surface.Route{Method: "GET", Path: path, Access: protocol.ScopeOpen, Handler: h}
	}
	return []surface.Route{
		open(fault.DocPath, sendErrors),
		open("/llms.txt", func(w http.ResponseWriter, r *http.Request) error {
			return sendPage(w, r, "llms.txt")
		}),
		open("/docs/coding-agents", func(w http.ResponseWriter, r *http.Request) error {
			return sendPage(w, r, "guides/coding-agents.md")
		}),
		open("/v1/tools/openapi.json", func(w http.ResponseWriter, _ *http.Request) error {
			body, err := tools()
			if err != nil {
				return fault.Wrap(fault.Internal, "docs.tools", err)
			}
			send(w, body, "application/json")
			return nil
		}),
		open("/docs/*", func(w http.ResponseWriter, r *http.Request) error {
			return sendPage(w, r, r.PathValue("*"))
		}),
	}
}

// sendPage sends a page of the repository: Markdown, or text to a browser, which would save
// Markdown as a file.
func sendPage(w http.ResponseWriter, r *http.Request, name string) error {
	page, err := fs.ReadFile(pages.Pages(), name)
	if err != nil {
		return fault.New(fault.NotFound, "docs.page", "no such page; see /llms.txt")
	}
	typ := "text/markdown; charset=utf-8"
	if path.Ext(name) != ".md" || strings.Contains(r.Header.Get("Accept"), "text/html") {
		typ = "text/plain; charset=utf-8"
	}
	send(w, page, typ)
	return nil
}

// sendErrors sends the page about errors: HTML to a browser, and otherwise text.
func sendErrors(w http.ResponseWriter, r *http.Request) error {
	page, typ := text(), "text/plain; charset=utf-8"
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		var err error
		if page, err = html(); err != nil {
			return err
		}
		typ = "text/html; charset=utf-8"
	}
	send(w, page, typ)
	return nil
}

// send sends a page with the headers of all pages.
func send(w http.ResponseWriter, page []byte, typ string) {
	h := w.Header()
	h.Set("Content-Type", typ)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept")
	_, _ = w.Write(page) // a client that has disconnected needs no answer
}

// html returns the page for a browser, with an anchor for each kind and cause.
func html() ([]byte, error) {
	const op = "docs.errors"
	t, err := template.New("errors").Parse(errorsPage)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, op, err)
	}
	var page bytes.Buffer
	err = t.Execute(&page, kinds())
	return page.Bytes(), fault.Wrap(fault.Internal, op, err)
}

// text returns the page for a terminal: one line for each kind and cause.
func text() []byte {
	var b bytes.Buffer
	for _, k := range kinds() {
		b.WriteString(string(k.Kind) + ": " + k.Advice + "\n")
		for _, c := range k.Causes {
			b.WriteString("  " + string(c.Cause) + ": " + c.Advice + "\n")
		}
	}
	return b.Bytes()
}
