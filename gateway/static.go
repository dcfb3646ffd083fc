package gateway

import (
	_ "embed"
	"errors"
	"io"
	"io/fs"
	"mime"
	"path"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
)

// openAPIDocument describes the routes. A test holds it to the table.
//
//go:embed openapi.json
var openAPIDocument []byte

//go:embed index.html
var indexPage []byte

func (g *Gateway) openAPI(q *request) error {
	q.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	q.Response().SetBodyRaw(openAPIDocument)
	return nil
}

// pagePolicy lets the web application talk to this server alone. Output of
// programs is shown in frames with a policy of their own.
const pagePolicy = "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data: blob:; " +
	"style-src 'self' 'unsafe-inline'; font-src 'self' data:; worker-src 'self' blob:; frame-src 'self' blob:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (g *Gateway) index(q *request) error {
	h := &q.Response().Header
	h.Set(fiber.HeaderContentSecurityPolicy, pagePolicy)
	h.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	h.Set(fiber.HeaderCacheControl, "no-cache")
	if g.cfg.Static == nil {
		h.SetContentType(fiber.MIMETextHTMLCharsetUTF8)
		q.Response().SetBodyRaw(indexPage)
		return nil
	}
	return q.static("index.html")
}

func (g *Gateway) asset(q *request) error {
	h := &q.Response().Header
	h.Set(fiber.HeaderContentSecurityPolicy, pagePolicy)
	h.Set(fiber.HeaderCacheControl, "no-cache")
	name := "assets/" + q.Params("*")
	if g.cfg.Static == nil || !fs.ValidPath(name) {
		return fault.New(fault.NotFound, "gateway.static", "there is no such file")
	}
	return q.static(name)
}

// static sends a file of the web application, at most 16 MiB.
func (q *request) static(name string) error {
	const op = "gateway.static"
	f, err := q.g.cfg.Static.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, op, "there is no such file")
	}
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return fault.New(fault.NotFound, op, "there is no such file")
	}
	data, err := io.ReadAll(io.LimitReader(f, 16<<20))
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	typ := mime.TypeByExtension(path.Ext(name))
	if typ == "" {
		typ = fiber.MIMEOctetStream
	}
	q.Response().Header.SetContentType(typ)
	q.Response().SetBodyRaw(data)
	return nil
}
