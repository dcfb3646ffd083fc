package gateway

import (
	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/gateway/surface"
)

// writeError answers with err. The status is that of the error's kind. trace is
// the id of the request's trace; empty without one.
func writeError(c *fiber.Ctx, err error, trace string) {
	body, p := surface.ErrorBody(err, trace)
	r := &c.Context().Response
	r.ResetBody()
	surface.SetErrorHeader(r.Header.Set, p)
	r.SetStatusCode(p.Kind.Row().HTTP)
	r.SetBodyRaw(body)
}
