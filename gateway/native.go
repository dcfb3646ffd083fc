package gateway

import (
	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/gateway/native"
	"github.com/sandgate/sandgate/protocol"
)

// nativeRoutes returns the routes that are derived from the operation table.
func (g *Gateway) nativeRoutes() []route {
	var all []route
	for _, h := range native.Handlers() {
		all = append(all, route{
			Method: h.Route.Method, Path: fiberPath(h.Route.Path), Access: h.Operation.Scope,
			Body: h.MaxBody(), handler: g.serveNative(h),
		})
	}
	return all
}

// fiberPath converts a path of the operation table to a path template of Fiber.
func fiberPath(path string) string {
	return native.Pattern(path, func(name string) string { return ":" + native.PublicName(name) })
}

// serveNative answers with the result of a handler's operation. A change of the key table is
// answered once this gateway has received it.
func (g *Gateway) serveNative(h native.Handler) func(*request) error {
	return func(q *request) error {
		status, result, err := h.Serve(nativeRequest{q}, q.ask)
		if err != nil {
			return err
		}
		var version uint64
		switch r := result.(type) {
		case *protocol.NewKey:
			version = r.Version
		case *protocol.KeyState:
			version = r.Version
		}
		if version > 0 {
			if err := g.auth.Keys.Await(g.base, version); err != nil {
				return err
			}
		}
		return q.json(status, result)
	}
}

// nativeRequest is a request as package native sees it.
type nativeRequest struct{ q *request }

func (r nativeRequest) Param(name string) string {
	return r.q.Params(
		native.PublicName(name))
}
func (r nativeRequest) Query(name string) string          { return r.q.Query(name) }
func (r nativeRequest) Decode(v any, optional bool) error { return r.q.body.decode(v, optional) }

// openAPI sends the description of the routes.
func (g *Gateway) openAPI(q *request) error {
	q.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	q.Response().SetBodyRaw(g.openAPIDocument)
	return nil
}
