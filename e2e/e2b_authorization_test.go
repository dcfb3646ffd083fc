package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol"
)

// e2bAnswers lists the answers of each route of the E2B control plane: without credentials, to an
// owner of another tenant, to a viewer and a run-only key of the same tenant, and to a share link of
// the sandbox. The sandbox, the volume and the snapshot belong to the tenant. The requests of the
// other tenant are valid.
const e2bAnswers = `
DELETE /events/webhooks/{id}              401 404 403 403 403
DELETE /sandboxes/{id}                    401 404 403 403 403
DELETE /secrets/{id}                      401 501 403 403 403
DELETE /templates/tags                    401 404 403 403 403
DELETE /templates/{id}                    401 404 403 403 403
DELETE /volumecontent/{path}              501 501 501 501 501
DELETE /volumes/{id}                      401 404 403 403 403
GET /events/sandboxes                     401 200 200 403 403
GET /events/sandboxes/{id}                401 200 200 403 403
GET /events/webhooks                      401 200 403 403 403
GET /events/webhooks/{id}                 401 404 403 403 403
GET /sandboxes                            401 200 200 403 403
GET /sandboxes/metrics                    401 400 400 403 403
GET /sandboxes/{id}                       401 404 200 403 403
GET /sandboxes/{id}/logs                  401 404 200 403 403
GET /sandboxes/{id}/metrics               401 404 200 403 403
GET /secrets                              401 501 501 403 403
GET /secrets/{id}                         401 501 501 403 403
GET /snapshots                            401 200 200 403 403
GET /templates                            401 200 200 403 403
GET /templates/aliases/{alias}            401 404 404 403 403
GET /templates/{id}                       401 404 404 403 403
GET /templates/{id}/builds/{build}/logs   401 404 404 403 403
GET /templates/{id}/builds/{build}/status 401 404 404 403 403
GET /templates/{id}/files/{hash}          401 400 403 403 403
GET /templates/{id}/tags                  401 404 404 403 403
GET /v2/sandboxes                         401 200 200 403 403
GET /v2/sandboxes/{id}/logs               401 404 200 403 403
GET /v2/templates                         401 200 200 403 403
GET /volumecontent/{path}                 501 501 501 501 501
GET /volumes                              401 200 200 403 403
GET /volumes/{id}                         401 404 200 403 403
PATCH /events/webhooks/{id}               401 404 403 403 403
PATCH /templates/{id}                     401 404 403 403 403
PATCH /v2/templates/{id}                  401 404 403 403 403
PATCH /volumecontent/{path}               501 501 501 501 501
POST /events/webhooks                     401 400 403 403 403
POST /sandboxes                           401 400 403 403 403
POST /sandboxes/{id}/connect              401 404 403 403 403
POST /sandboxes/{id}/fork                 401 404 403 403 403
POST /sandboxes/{id}/pause                401 404 403 403 403
POST /sandboxes/{id}/refreshes            401 404 403 403 403
POST /sandboxes/{id}/resume               401 404 403 403 403
POST /sandboxes/{id}/snapshots            401 404 403 403 403
POST /sandboxes/{id}/timeout              401 404 403 403 403
POST /secrets                             401 501 403 403 403
POST /secrets/{id}                        401 501 403 403 403
POST /templates/tags                      401 404 403 403 403
POST /v2/templates/{id}/builds/{build}    401 404 403 403 403
POST /v3/templates                        401 400 403 403 403
POST /v2/sandboxes                        401 400 403 403 403
POST /v2/sandboxes/{id}/connect           401 404 403 403 403
POST /volumecontent/{path}                501 501 501 501 501
POST /volumes                             401 400 403 403 403
PUT /sandboxes/{id}/network               401 404 403 403 403
PUT /templates/files/{tenant}/{hash}/{token} 404 404 404 404 404
PUT /volumecontent/{path}                 501 501 501 501 501
`

// e2bBodies returns bodies for the routes that check the body before they look for the sandbox.
func e2bBodies() map[string]string {
	return map[string]string{
		"PATCH /events/webhooks/{id}":            `{"enabled":false}`,
		"PATCH /templates/{id}":                  `{"public":false}`,
		"PATCH /v2/templates/{id}":               `{"public":false}`,
		"DELETE /templates/tags":                 `{"name":"none","tags":["a"]}`,
		"POST /templates/tags":                   `{"target":"none","tags":["a"]}`,
		"POST /v3/templates":                     `{"name":""}`,
		"POST /v2/templates/{id}/builds/{build}": `{}`,
		"POST /sandboxes":                        `{"templateID":""}`,
		"POST /v2/sandboxes":                     `{"templateID":""}`,
		"POST /sandboxes/{id}/timeout":           `{"timeout":60}`,
		"POST /volumes":                          `{"name":""}`,
		"PUT /sandboxes/{id}/network":            `{}`,
		"POST /sandboxes/{id}/snapshots":         `{}`,
	}
}

// e2bRoutes returns the routes of the control plane from the gateway's list of routes.
func e2bRoutes(t *testing.T) []string {
	text, err := os.ReadFile("../gateway/testdata/golden/routes.txt")
	check(t, err)
	param := regexp.MustCompile(`:(\w+)`)
	var all []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if !slices.Contains(words, "any-host") || words[0] == "OPTIONS" || words[0] == "(sandbox)" {
			continue
		}
		path := param.ReplaceAllString(strings.ReplaceAll(words[1], "*", "{path}"), "{$1}")
		all = append(all, words[0]+" "+path)
	}
	return all
}

// TestEveryE2BRoute calls all routes of the E2B control plane with credentials that are not
// sufficient, or not completely. A route that is not in the table fails.
func TestEveryE2BRoute(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [bash], memory: 0}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	root, err := wire.New(srv.URL, srv.Token, wire.Options{})
	check(t, err)
	key := func(tenant, role string) string {
		k, err := root.CreateKey(ctx, protocol.KeyCreate{Tenant: tenant, Role: role})
		check(t, err)
		return e2bname.HexKey(k.Secret)
	}
	foreign, viewer, run := key("other", "owner"), key("", "viewer"), key("", "run")
	s, err := root.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
	check(t, err)
	_, err = root.CreateVolume(ctx, protocol.VolumeCreate{Name: "kept"})
	check(t, err)
	var link struct{ Token string }
	_, err = srv.JSON(ctx, "POST", "/v1/sessions/"+s.ID+"/links", map[string]any{}, &link)
	check(t, err)

	request := func(route, secret string) int {
		method, path, _ := strings.Cut(route, " ")
		id := "i" + strings.TrimPrefix(s.ID, "s_")
		switch {
		case strings.HasPrefix(path, "/volumes"):
			id = "kept"
		case strings.Contains(path, "templates"):
			id = "none"
		}
		address := strings.NewReplacer("{id}", id, "{alias}", "none", "{path}", "a",
			"{build}", "none", "{hash}", "a", "{tenant}", "a", "{token}", "a").Replace(path)
		req, err := http.NewRequestWithContext(ctx, method, srv.URL+address,
			strings.NewReader(e2bBodies()[route]))
		check(t, err)
		if secret != "" {
			req.Header.Set("X-API-KEY", secret)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		check(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	want := rows(e2bAnswers)
	for _, route := range e2bRoutes(t) {
		var answers []string
		for _, secret := range []string{"", foreign, viewer, run, link.Token} {
			answers = append(answers, strconv.Itoa(request(route, secret)))
		}
		if is := fmt.Sprint(strings.Join(answers, " ")); want[route] != is {
			t.Errorf("%s answers %s, want %s", route, is, want[route])
		}
		delete(want, route)
	}
	for route := range want {
		t.Errorf("there is no route %s", route)
	}
	if v, err := root.Session(ctx, s.ID); err != nil || v.State != "running" {
		t.Errorf("the session after all that: %+v, %v", v, err)
	}
}
