package gateway

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"mime"
	"path"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
)

// indexPage stands in for the web application where there is none.
//
//go:embed index.html
var indexPage []byte

const (
	// pagePolicy lets the web application load from this server alone, run no
	// script that it was not delivered with, and make none of text.
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; " +
		"font-src 'self'; connect-src 'self'; media-src 'self' blob:; frame-src 'self'; worker-src 'self'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
	// framePolicy is for output of programs. The frame has an origin of its
	// own that is nobody's, also when its address is opened directly, and
	// reaches nothing but the libraries, which the handler adds.
	framePolicy = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:%s; style-src 'unsafe-inline'; " +
		"img-src data: blob:; font-src data:; media-src data: blob:; connect-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
	// permissions are of devices, which no page here uses.
	permissions = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), microphone=(), midi=(), payment=(), " +
		"usb=(), clipboard-read=(self), clipboard-write=(self)"
	// immutable is for names that hold their content's hash.
	immutable = "public, max-age=31536000, immutable"
	// maxStatic is the largest file of the web application, in bytes.
	maxStatic = 16 << 20
)

// page sends the web application's one page, which finds out by its address
// what to show.
func (g *Gateway) page(q *request) error {
	h := &q.Response().Header
	h.Set(fiber.HeaderContentSecurityPolicy, pagePolicy)
	h.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	h.Set("Permissions-Policy", permissions)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if g.cfg.Static == nil {
		h.Set(fiber.HeaderCacheControl, "no-cache")
		h.SetContentType(fiber.MIMETextHTMLCharsetUTF8)
		q.Response().SetBodyRaw(indexPage)
		return nil
	}
	return q.static("index.html", "no-cache")
}

// asset sends a part of the page. Its name changes with its content.
func (g *Gateway) asset(q *request) error {
	h := &q.Response().Header
	// A picture may be opened as a page.
	h.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	return q.static("assets/"+q.Params("*"), immutable)
}

// sandboxFrame sends the page in which output of programs is shown.
func (g *Gateway) sandboxFrame(q *request) error {
	h := &q.Response().Header
	// An opaque origin is nobody's own, so that the libraries have to be
	// named with the host. The door has compared it with the server's names.
	lib := string(q.Request().Header.Host()) + "/sandbox/lib/"
	h.Set(fiber.HeaderContentSecurityPolicy, strings.Replace(framePolicy, "%s", " http://"+lib+" https://"+lib, 1))
	h.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	h.Set("Permissions-Policy", permissions)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	return q.static("sandbox/frame.html", "no-cache")
}

// sandboxLibrary sends a script to the frame, which comes from nobody's origin
// and says so: the route is public.
func (g *Gateway) sandboxLibrary(q *request) error {
	return q.static("sandbox/lib/"+q.Params("*"), "public, max-age=86400")
}

// static sends a file of the web application. It is kept packed, and unpacked
// for the rare client that cannot do that itself.
func (q *request) static(name, cache string) error {
	const op = "gateway.static"
	if q.g.cfg.Static == nil || !fs.ValidPath(name) {
		return fault.New(fault.NotFound, op, "there is no such file")
	}
	data, err := fs.ReadFile(q.g.cfg.Static, name+".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, op, "there is no such file")
	}
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	h := &q.Response().Header
	sum := sha256.Sum256(data)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	h.Set(fiber.HeaderCacheControl, cache)
	h.Set(fiber.HeaderETag, tag)
	h.Add(fiber.HeaderVary, fiber.HeaderAcceptEncoding)
	if q.Get(fiber.HeaderIfNoneMatch) == tag {
		q.Status(fiber.StatusNotModified)
		return nil
	}
	typ := mime.TypeByExtension(path.Ext(name))
	if typ == "" {
		typ = fiber.MIMEOctetStream
	}
	h.SetContentType(typ)
	if strings.Contains(q.Get(fiber.HeaderAcceptEncoding), "gzip") {
		h.Set(fiber.HeaderContentEncoding, "gzip")
		q.Response().SetBodyRaw(data)
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxStatic))
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	q.Response().SetBodyRaw(plain)
	return nil
}
