package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/surface"
)

// errorBody is the body of every response that is an error.
type errorBody struct {
	Error fault.Public `json:"error"`
}

// writeError answers with err. The status is fault.Table's for its kind.
// trace is the id of the request's trace, empty for none.
func writeError(c *fiber.Ctx, err error, trace string) {
	p := surface.PublicOf(err)
	p.Trace = trace
	body, merr := json.Marshal(errorBody{p})
	if merr != nil {
		body = []byte(`{"error":{"kind":"internal","message":""}}`)
	}
	h := &c.Context().Response
	h.ResetBody()
	if p.RetryAfter > 0 {
		h.Header.Set(fiber.HeaderRetryAfter, strconv.Itoa(p.RetryAfter))
	}
	if p.Kind == fault.Unauthenticated {
		h.Header.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="sandgate"`)
	}
	h.Header.SetContentType(fiber.MIMEApplicationJSON)
	h.Header.Set(fiber.HeaderCacheControl, "no-store")
	h.SetStatusCode(p.Kind.Row().HTTP)
	h.SetBodyRaw(body)
}

// rawError is a whole response for a connection that never reached Fiber.
func rawError(err error) []byte {
	p := surface.PublicOf(err)
	body, _ := json.Marshal(errorBody{p})
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nRetry-After: %d\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		p.Kind.Row().HTTP, p.Kind, p.RetryAfter, len(body), body)
}

// serverError answers what fasthttp could not parse, and what Fiber itself
// refuses. fasthttp closes the connection after it.
func (g *Gateway) serverError(c *fiber.Ctx, err error) error {
	const op = "gateway.http"
	var ours *fault.Error
	var theirs *fiber.Error
	switch {
	case errors.As(err, &ours):
	case errors.As(err, &theirs):
		switch theirs.Code {
		case fiber.StatusRequestHeaderFieldsTooLarge:
			err = fault.New(fault.TooLarge, op, "the request's header is over %d bytes", g.cfg.Limits.Header)
		case fiber.StatusRequestEntityTooLarge:
			err = fault.New(fault.TooLarge, op, "the request's body is over its limit")
		case fiber.StatusRequestTimeout:
			err = fault.New(fault.DeadlineExceeded, op, "the request did not arrive in time")
		case fiber.StatusNotFound, fiber.StatusMethodNotAllowed:
			err = fault.New(fault.NotFound, op, "there is no such route; see /v1/openapi.json")
		default:
			err = fault.New(fault.Malformed, op, "the request is no valid HTTP")
		}
	default:
		err = fault.Wrap(fault.Internal, op, err)
	}
	g.stats.badRequests.Add(1)
	writeError(c, err, "")
	c.Context().SetConnectionClose()
	return nil
}
