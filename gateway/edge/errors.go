package edge

import (
	"fmt"

	"github.com/sandgate/sandgate/gateway/surface"
)

// rawError returns a whole response for a connection whose request never reached a handler.
func rawError(err error) []byte {
	body, p := surface.ErrorBody(err, "")
	return fmt.Appendf(
		nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nRetry-After: %d\r\n"+
			"Connection: close\r\nContent-Length: %d\r\n\r\n%s",
		p.Kind.Row().HTTP, p.Kind, p.RetryAfter, len(body), body)
}
