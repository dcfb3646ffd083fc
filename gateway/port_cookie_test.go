package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestPortCookieIsSecure opens a port on a path, over TLS and without it.
func TestPortCookieIsSecure(t *testing.T) {
	w := newPortWorld(t, func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "x") })
	for _, proto := range []string{"http", "https"} {
		var reply portReply
		r := w.do("POST", "/v1/sessions/s_"+portID+"/ports", tokenAll,
			strings.NewReader(fmt.Sprintf(`{"port":%d}`, w.port)),
			func(r *http.Request) { r.Host = "127.0.0.1:" + strings.Split(w.addr, ":")[1] })
		if err := json.Unmarshal([]byte(read(t, r)), &reply); err != nil || reply.URL == "" {
			t.Fatal(r.StatusCode, err)
		}
		u, err := url.Parse(reply.URL)
		if err != nil {
			t.Fatal(err)
		}
		r = w.do("GET", w.base+"/?"+u.RawQuery, "", nil, header("X-Forwarded-Proto", proto))
		if c := r.Cookies(); len(c) != 1 || c[0].Secure != (proto == "https") {
			t.Errorf("%s: status %d, cookies %v", proto, r.StatusCode, c)
		}
	}
}
