package gateway

import (
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// embedPolicy is for the page /embed/run. It has no credentials of its own;
// pictures and frames are of the output.
const embedPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self'; " +
	"frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// runScript sends the run button. It has one address for good, so that pages
// of others can name it, and is asked for anew each hour.
func (g *Gateway) runScript(q *request) error {
	return q.static("run.js", "public, max-age=3600")
}

// embed sends the page /embed/run and its parts. It may be framed by pages of
// the allowed origins, and of those that tickets to embed name.
func (g *Gateway) embed(q *request) error {
	name := q.Params("*")
	h := &q.Response().Header
	h.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	if name != "run" {
		h.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'")
		return q.static("embed/"+name, "no-cache")
	}
	framing, err := g.auth.RunTokens.Framing(g.base)
	if err != nil {
		return err
	}
	for origin := range *g.origins.Load() {
		framing = append(framing, origin)
	}
	slices.Sort(framing)
	h.Set(fiber.HeaderContentSecurityPolicy, strings.Join(append([]string{embedPolicy}, framing...), " "))
	h.Set("Permissions-Policy", permissions)
	if err := q.static("embed/run", "no-store"); err != nil {
		return err
	}
	h.SetContentType(fiber.MIMETextHTMLCharsetUTF8)
	return nil
}
