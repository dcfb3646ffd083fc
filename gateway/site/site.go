// Package site is the surface of the web application's files: its page, its parts, the frame that
// shows output of programs, and the run button for pages of other sites. No file needs credentials.
//
// A file has at most 16 MiB. The content policies allow each page only the scripts that were
// delivered with it.
package site

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
	"net/http"
	"path"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// indexPage is served if there is no web application.
//
//go:embed index.html
var indexPage []byte

const (
	// pagePolicy lets the web application load files only from this server. The handler adds the
	// host names of ports at its end, so that the page can show previews in frames.
	pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
		"img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; media-src 'self' blob:; " +
		"worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'; require-trusted-types-for 'script'; frame-src 'self'"
	// framePolicy is for output of programs. The frame has an opaque origin, even if a browser
	// opens its address directly. It can load nothing but the libraries, which the handler adds.
	framePolicy = "sandbox allow-scripts; default-src 'none'; " +
		"script-src 'unsafe-inline' 'unsafe-eval' blob:%s; style-src 'unsafe-inline'; " +
		"img-src data: blob:; font-src data:; media-src data: blob:; connect-src 'none'; " +
		"form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
	// permissions disables devices, because no page here uses them.
	permissions = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), " +
		"microphone=(), midi=(), payment=(), usb=(), clipboard-read=(self), clipboard-write=(self)"
	// immutable is for names that contain the hash of the content.
	immutable = "public, max-age=31536000, immutable"
	// maxFile is the largest file, in bytes.
	maxFile = 16 << 20
)

// Config configures a Surface.
type Config struct {
	// Files is the web application, each file compressed as name.gz: index.html, assets/, sandbox/.
	// nil serves a page that describes the server.
	Files fs.FS
	// Framing returns the origins whose pages may show /embed/run in a frame.
	Framing func() ([]string, error)
	// Previews returns the host names of ports, as a source of a content policy, for a browser that
	// reached the gateway by host. It is empty if ports have none there. nil means none.
	Previews func(host string) string
}

// Surface serves the files.
type Surface struct{ cfg Config }

// New returns a Surface.
func New(cfg Config) *Surface { return &Surface{cfg} }

// Routes returns the routes, which are all open.
func (s *Surface) Routes() []surface.Route {
	return []surface.Route{
		open("/", s.page),
		open("/s/*", s.page),
		open("/console/*", s.page),
		open("/assets/*", s.asset),
		open("/icons/*", s.icon),
		open("/manifest.webmanifest", s.manifest),
		open("/worker.js", s.worker),
		public("/run.js", s.runScript),
		open("/embed/*", s.embed),
		open("/sandbox/frame", s.frame),
		public("/sandbox/lib/*", s.library),
	}
}

func open(path string, h surface.HandlerFunc) surface.Route {
	return surface.Route{Method: "GET", Path: path, Access: protocol.ScopeOpen, Handler: h}
}

// page sends the web application's only page. Its script uses the address to decide what to show.
func (s *Surface) page(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	policy := pagePolicy
	if s.cfg.Previews != nil {
		if source := s.cfg.Previews(r.Host); source != "" {
			policy += " " + source
		}
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-DNS-Prefetch-Control", "off")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", permissions)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if s.cfg.Files == nil {
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(indexPage) // a client that has disconnected needs no answer
		return nil
	}
	return s.send(w, r, "index.html", "no-cache")
}

// asset sends a part of the page. The name of a part changes with its content.
func (s *Surface) asset(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	// A browser may open a picture as a page of its own.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	return s.send(w, r, "assets/"+r.PathValue("*"), immutable)
}

// icon sends an icon of the installed application.
func (s *Surface) icon(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	return s.send(w, r, "icons/"+r.PathValue("*"), "public, max-age=86400")
}

// manifest sends the description of the application with which browsers install it.
func (s *Surface) manifest(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/manifest+json")
	return s.send(w, r, "manifest.webmanifest", "no-cache")
}

// worker sends the service worker. It may request files from this server and nothing else.
func (s *Surface) worker(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'")
	return s.send(w, r, "worker.js", "no-cache")
}

// frame sends the page that shows output of programs.
func (s *Surface) frame(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	// For an opaque origin 'self' matches nothing, so the policy names the host of the libraries.
	// The gateway has already checked the host.
	lib := r.Host + "/sandbox/lib/"
	h.Set("Content-Security-Policy", strings.Replace(framePolicy, "%s", " http://"+lib+" https://"+
		lib, 1))
	// A name that a browser prefetches would carry data to the name's server.
	h.Set("X-DNS-Prefetch-Control", "off")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", permissions)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	return s.send(w, r, "sandbox/frame.html", "no-cache")
}

// library sends a script to the frame, whose origin is opaque.
func (s *Surface) library(w http.ResponseWriter, r *http.Request) error {
	return s.send(w, r, "sandbox/lib/"+r.PathValue("*"), "public, max-age=86400")
}

// send sends a file. It is stored compressed, and is decompressed for the rare client that cannot
// decompress.
func (s *Surface) send(w http.ResponseWriter, r *http.Request, name, cache string) error {
	const op = "site.send"
	if s.cfg.Files == nil || !fs.ValidPath(name) {
		return fault.New(fault.NotFound, op, "there is no such file")
	}
	data, err := fs.ReadFile(s.cfg.Files, name+".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, op, "there is no such file")
	}
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	h := w.Header()
	sum := sha256.Sum256(data)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	h.Set("Cache-Control", cache)
	h.Set("ETag", tag)
	h.Add("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
	} else if data, err = decompress(data); err != nil {
		return err
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", typeOf(name))
	}
	_, _ = w.Write(data) // a client that has disconnected needs no answer
	return nil
}

func typeOf(name string) string {
	if typ := mime.TypeByExtension(path.Ext(name)); typ != "" {
		return typ
	}
	return "application/octet-stream"
}

func decompress(data []byte) ([]byte, error) {
	const op = "site.send"
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fault.Wrap(fault.Internal, op, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxFile))
	return plain, fault.Wrap(fault.Internal, op, err)
}
