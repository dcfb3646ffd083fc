package gateway

import (
	"fmt"

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

// rawError returns a whole response for a connection whose request never reached a handler.
func rawError(err error) []byte {
	body, p := surface.ErrorBody(err, "")
	return fmt.Appendf(
		nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nRetry-After: %d\r\n"+
			"Connection: close\r\nContent-Length: %d\r\n\r\n%s",
		p.Kind.Row().HTTP, p.Kind, p.RetryAfter, len(body), body)
}
