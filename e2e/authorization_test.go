package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// routeAnswers lists the answers of each route: without credentials, to an owner
// of another tenant, to a viewer and a run-only key of the same tenant, and to a
// run token that has expired. The session, its ports and the snapshot belong to
// the tenant. 101 is a WebSocket. A star marks a route that is open to everybody
// and exists once the web application is built and the server is ready.
const routeAnswers = `
GET /                                                200 200 200 200 200
GET /assets/{path}                                   * * * * *
GET /console/{path}                                  200 200 200 200 200
GET /docs/coding-agents                              200 200 200 200 200
GET /docs/errors                                     200 200 200 200 200
GET /docs/{path}                                     * * * * *
GET /embed/{path}                                    * * * * *
GET /healthz                                         200 200 200 200 200
GET /icons/{path}                                    * * * * *
GET /livez                                           200 200 200 200 200
GET /llms.txt                                        200 200 200 200 200
GET /manifest.webmanifest                            * * * * *
GET /readyz                                          * * * * *
GET /run.js                                          * * * * *
GET /s/{path}                                        200 200 200 200 200
GET /sandbox/frame                                   * * * * *
GET /sandbox/lib/{path}                              * * * * *
GET /worker.js                                       * * * * *
GET /v1/files/{token}                                404 404 404 404 404
HEAD /v1/files/{token}                               404 404 404 404 404
PUT /v1/files/{token}                                404 404 404 404 404
GET /v1/openapi.json                                 200 200 200 200 200
GET /v1/tools/openapi.json                           200 200 200 200 200
OPTIONS /v1/run                                      204 204 204 204 204
OPTIONS /v1/run/{path}                               204 204 204 204 204
OPTIONS /v1/{path}                                   204 204 204 204 204

GET /auth                                            200 200 200 200 200
GET /auth/login                                      404 404 404 404 404
GET /auth/callback                                   404 404 404 404 404
POST /auth/token                                     401 401 401 401 401
POST /auth/logout                                    401 401 401 401 401

GET /v1                                              401 200 200 200 403
GET /v1/ws                                           401 101 101 101 403
GET /v1/status                                       401 403 403 403 403
GET /v1/nodes                                        401 403 403 403 403
PATCH /v1/nodes/{node}                               401 403 403 403 403
GET /metrics                                         401 403 403 403 403
POST /v1/tickets                                     401 201 201 201 403
DELETE /v1/tickets/{id}                              401 404 404 404 403
GET /v1/keys                                         401 200 403 403 403
POST /v1/keys                                        401 400 403 403 403
POST /v1/keys/{id}/rotate                            401 404 403 403 403
DELETE /v1/keys/{id}                                 401 404 403 403 403
GET /v1/tenants                                      401 200 403 403 403
PUT /v1/tenants/{id}                                 401 403 403 403 403
DELETE /v1/tenants/{id}                              401 403 403 403 403

POST /v1/run                                         401 200 403 200 401
POST /v1/run/{id}/input                              401 404 403 404 401
POST /v1/run/{id}/interrupt                          401 404 403 404 401

GET /v1/events                                       401 200 200 403 403
GET /v1/sessions/{id}/series                         401 404 200 403 403
GET /v1/usage                                        401 200 200 403 403
GET /v1/audit                                        401 200 403 403 403
GET /v1/webhooks                                     401 200 403 403 403
POST /v1/webhooks                                    401 400 403 403 403
GET /v1/webhooks/{webhook}                           401 404 403 403 403
PATCH /v1/webhooks/{webhook}                         401 400 403 403 403
DELETE /v1/webhooks/{webhook}                        401 404 403 403 403
POST /v1/webhooks/{webhook}/test                     401 404 403 403 403
POST /v1/webhooks/{webhook}/rotate                   401 404 403 403 403
GET /v1/webhooks/{webhook}/deliveries                401 404 403 403 403
POST /v1/webhooks/{webhook}/resend                   401 404 403 403 403
GET /v1/sessions                                     401 200 200 403 403
GET /v1/sessions/by-name/{id}                        401 404 404 403 403
PUT /v1/sessions/by-name/{id}                        401 400 403 403 403
POST /v1/sessions                                    401 400 403 403 403
GET /v1/sessions/{id}                                401 404 200 403 403
PATCH /v1/sessions/{id}                              401 404 403 403 403
DELETE /v1/sessions/{id}                             401 404 403 403 403
POST /v1/sessions/{id}/pause                         401 404 403 403 403
POST /v1/sessions/{id}/keepalive                     401 404 403 403 403
POST /v1/sessions/{id}/hibernate                     401 404 403 403 403
POST /v1/sessions/{id}/resume                        401 404 403 403 403
POST /v1/sessions/{id}/fork                          401 404 403 403 403
POST /v1/sessions/{id}/snapshots                     401 404 403 403 403
GET /v1/snapshots                                    401 200 200 403 403
GET /v1/snapshots/{id}                               401 404 200 403 403
DELETE /v1/snapshots/{id}                            401 404 403 403 403
GET /v1/notebooks                                    401 200 200 403 403
DELETE /v1/notebooks/{notebook}                      401 404 403 403 403
GET /v1/notebooks/{notebook}/versions                401 404 404 403 403
GET /v1/notebooks/{notebook}/versions/{version}      401 404 404 403 403
PATCH /v1/notebooks/{notebook}/versions/{version}    401 400 403 403 403
GET /v1/volumes                                      401 200 200 403 403
POST /v1/volumes                                     401 400 403 403 403
GET /v1/volumes/{id}                                 401 404 200 403 403
DELETE /v1/volumes/{id}                              401 404 403 403 403
POST /v1/volumes/{id}/lease                          401 404 403 403 403
POST /v1/volumes/{id}/release                        401 404 403 403 403
GET /v1/templates                                    401 200 200 403 403
GET /v1/templates/{id}                               401 404 404 403 403
PUT /v1/templates/{id}                               401 400 403 403 403
DELETE /v1/templates/{id}                            401 404 403 403 403

GET /v1/sessions/{id}/links                          401 404 403 403 403
POST /v1/sessions/{id}/links                         401 404 403 403 403
DELETE /v1/sessions/{id}/links/{link}                401 404 403 403 403
GET /v1/sessions/{id}/channels                       401 404 200 403 403
POST /v1/sessions/{id}/channels                      401 404 403 403 403
POST /v1/sessions/{id}/exec                          401 404 403 403 403
POST /v1/sessions/{id}/run                           401 404 403 403 403
GET /v1/sessions/{id}/channels/{channel}/cast        401 404 200 403 403
GET /v1/sessions/{id}/channels/{channel}/text        401 404 200 403 403
GET /v1/sessions/{id}/processes                      401 404 200 403 403
POST /v1/sessions/{id}/processes/{pid}/signal        401 404 403 403 403
GET /v1/sessions/{id}/services                       401 404 200 403 403
PUT /v1/sessions/{id}/services/{name}                401 404 403 403 403
DELETE /v1/sessions/{id}/services/{name}             401 404 403 403 403
POST /v1/sessions/{id}/services/{name}/start         401 404 403 403 403
POST /v1/sessions/{id}/services/{name}/stop          401 404 403 403 403
POST /v1/sessions/{id}/services/{name}/restart       401 404 403 403 403
GET /v1/sessions/{id}/ports                          401 404 200 403 403
POST /v1/sessions/{id}/ports                         401 404 403 403 403
GET /v1/sessions/{id}/ports/links                    401 404 403 403 403
POST /v1/sessions/{id}/ports/{port}/links            401 404 403 403 403
DELETE /v1/sessions/{id}/ports/links/{link}          401 404 403 403 403
POST /v1/sessions/{id}/ports/links/{link}/ticket     401 404 404 403 403
GET /v1/sessions/{id}/ports/{port}/wait              401 404 504 403 403
GET /v1/sessions/{id}/ports/{port}                   401 404 403 403 401
GET /v1/sessions/{id}/ports/{port}/{path}            401 404 403 403 401
HEAD /v1/sessions/{id}/ports/{port}/{path}           401 404 403 403 401
POST /v1/sessions/{id}/ports/{port}/{path}           401 404 403 403 401
PUT /v1/sessions/{id}/ports/{port}/{path}            401 404 403 403 401
PATCH /v1/sessions/{id}/ports/{port}/{path}          401 404 403 403 401
DELETE /v1/sessions/{id}/ports/{port}/{path}         401 404 403 403 401
GET /v1/sessions/{id}/changes                        401 404 200 403 403
POST /v1/sessions/{id}/files/links                   401 404 201 403 403
GET /v1/sessions/{id}/files/{path}                   401 404 200 403 403
HEAD /v1/sessions/{id}/files/{path}                  401 404 200 403 403
PUT /v1/sessions/{id}/files/{path}                   401 404 403 403 403
POST /v1/sessions/{id}/files/{path}                  401 404 403 403 403
DELETE /v1/sessions/{id}/files/{path}                401 404 403 403 403
`

// operationAnswers lists the answers of the operations of the WebSocket: to the
// owner of another tenant, to a viewer, to a run-only key.
const operationAnswers = `
attach             not_found ok permission_denied
channel.close      not_found permission_denied permission_denied
channel.list       not_found ok permission_denied
channel.open       not_found permission_denied permission_denied
comm               invalid_argument permission_denied permission_denied
complete           invalid_argument permission_denied permission_denied
detach             invalid_argument invalid_argument invalid_argument
document.join      not_found invalid_argument permission_denied
document.update    not_found permission_denied permission_denied
event.list         ok ok permission_denied
execute            invalid_argument permission_denied permission_denied
file.changes       not_found ok permission_denied
file.copy          not_found permission_denied permission_denied
file.list          not_found not_found permission_denied
file.watch         not_found invalid_argument permission_denied
file.mkdir         not_found permission_denied permission_denied
file.move          not_found permission_denied permission_denied
file.remove        not_found permission_denied permission_denied
file.stat          not_found not_found permission_denied
follow             invalid_argument invalid_argument permission_denied
hello              conflict conflict conflict
history            invalid_argument invalid_argument permission_denied
input              invalid_argument permission_denied permission_denied
inspect            invalid_argument permission_denied permission_denied
interrupt          invalid_argument permission_denied permission_denied
is_complete        invalid_argument permission_denied permission_denied
metrics            permission_denied permission_denied permission_denied
port.list          not_found ok permission_denied
port.wait          invalid_argument invalid_argument permission_denied
process.list       not_found ok permission_denied
process.signal     not_found permission_denied permission_denied
resize             invalid_argument permission_denied permission_denied
restart            invalid_argument permission_denied permission_denied
service.list       not_found ok permission_denied
service.remove     not_found permission_denied permission_denied
service.restart    not_found permission_denied permission_denied
service.set        not_found permission_denied permission_denied
service.start      not_found permission_denied permission_denied
service.stop       not_found permission_denied permission_denied
session.create     invalid_argument permission_denied permission_denied
session.delete     not_found permission_denied permission_denied
session.ensure     invalid_argument permission_denied permission_denied
session.find       not_found not_found permission_denied
session.fork       not_found permission_denied permission_denied
session.get        not_found ok permission_denied
session.hibernate  not_found permission_denied permission_denied
session.keepalive  not_found permission_denied permission_denied
session.list       ok ok permission_denied
session.pause      not_found permission_denied permission_denied
session.resume     not_found permission_denied permission_denied
session.snapshot   not_found permission_denied permission_denied
session.watch      not_found invalid_argument permission_denied
session.update     not_found permission_denied permission_denied
signal             invalid_argument permission_denied permission_denied
snapshot.delete    not_found permission_denied permission_denied
snapshot.get       not_found ok permission_denied
snapshot.list      ok ok permission_denied
status             permission_denied permission_denied permission_denied
template.delete    not_found permission_denied permission_denied
template.get       not_found not_found permission_denied
template.list      ok ok permission_denied
variables          invalid_argument permission_denied permission_denied
notebook.list        ok ok permission_denied
notebook.versions    not_found not_found permission_denied
notebook.read        not_found not_found permission_denied
notebook.name        not_found permission_denied permission_denied
notebook.delete      not_found permission_denied permission_denied
volume.create      invalid_argument permission_denied permission_denied
volume.delete      not_found permission_denied permission_denied
volume.get         not_found ok permission_denied
volume.lease       not_found permission_denied permission_denied
volume.list        ok ok permission_denied
volume.release     not_found permission_denied permission_denied

audit              unsupported unsupported unsupported
audit.list         unsupported unsupported unsupported
audit.stored       unsupported unsupported unsupported
usage.stored       unsupported unsupported unsupported
session.series     not_found ok permission_denied
usage.report       unsupported unsupported unsupported
webhook.create     unsupported unsupported unsupported
webhook.delete     unsupported unsupported unsupported
webhook.deliveries unsupported unsupported unsupported
webhook.done       unsupported unsupported unsupported
webhook.get        unsupported unsupported unsupported
webhook.list       unsupported unsupported unsupported
webhook.resend     unsupported unsupported unsupported
webhook.rotate     unsupported unsupported unsupported
repeat.begin       unsupported unsupported unsupported
repeat.end         unsupported unsupported unsupported
webhook.take       unsupported unsupported unsupported
webhook.test       unsupported unsupported unsupported
webhook.update     unsupported unsupported unsupported
file.read          unsupported unsupported unsupported
file.write         unsupported unsupported unsupported
key.create         unsupported unsupported unsupported
key.list           unsupported unsupported unsupported
key.revoke         unsupported unsupported unsupported
key.rotate         unsupported unsupported unsupported
key.watch          unsupported unsupported unsupported
link.create        unsupported unsupported unsupported
link.end           unsupported unsupported unsupported
link.list          unsupported unsupported unsupported
file.link          unsupported unsupported unsupported
node.drain         unsupported unsupported unsupported
port.link          unsupported unsupported unsupported
port.links         unsupported unsupported unsupported
port.open          unsupported unsupported unsupported
port.unlink        unsupported unsupported unsupported
session.adopt      unsupported unsupported unsupported
session.owner      unsupported unsupported unsupported
snapshot.discard   unsupported unsupported unsupported
snapshot.stored    unsupported unsupported unsupported
template.stored    unsupported unsupported unsupported
session.parked     unsupported unsupported unsupported
template.build     unsupported unsupported unsupported
run.once           unsupported unsupported unsupported
run.input          unsupported unsupported unsupported
run.interrupt      unsupported unsupported unsupported
session.run        unsupported unsupported unsupported
session.exec       unsupported unsupported unsupported
node.list          unsupported unsupported unsupported
node.update        unsupported unsupported unsupported
tenant.list        unsupported unsupported unsupported
tenant.quota       unsupported unsupported unsupported
tree.read          unsupported unsupported unsupported
tree.write         unsupported unsupported unsupported
`

// bodies returns valid bodies for the routes that check the body before they look
// for the session.
func bodies() map[string]string {
	return map[string]string{
		"PATCH /v1/sessions/{id}":                       `{"name":"x"}`,
		"POST /v1/sessions/{id}/channels":               `{"kind":"terminal"}`,
		"POST /v1/sessions/{id}/exec":                   `{"argv":["true"]}`,
		"POST /v1/sessions/{id}/run":                    `{"code":"1"}`,
		"POST /v1/sessions/{id}/ports":                  `{"port":80}`,
		"POST /v1/sessions/{id}/processes/{pid}/signal": `{"signal":"SIGTERM"}`,
		"PUT /v1/sessions/{id}/services/{name}":         `{"cmd":"true"}`,
		"POST /v1/sessions/{id}/files/{path}":           `{"op":"mkdir"}`,
		"POST /v1/sessions/{id}/files/links":            `{"path":"a.txt"}`,
		"PUT /v1/files/{token}":                         `x`,
		"POST /v1/run/{id}/input":                       `{"channel":"k1","cell":1,"value":"x"}`,
		"POST /v1/run/{id}/interrupt":                   `{"channel":"k1"}`,
		"POST /v1/run":                                  `{"language":"bash","code":"echo on"}`,
		"POST /v1/sessions":                             `{"language":"none"}`,
		"PUT /v1/sessions/by-name/{id}":                 `{"language":"none"}`,
		"POST /v1/keys":                                 `{"role":"none"}`,
		"PUT /v1/tenants/{id}":                          `{"sessions":1000}`,
		"POST /v1/tickets":                              `{"scopes":[]}`,
		"PUT /v1/sessions/{id}/files/{path}":            `x`,
		"PUT /v1/templates/{id}":                        `x`,
		"PUT /v1/sessions/{id}/ports/{port}/{path}":     `x`,
		"POST /v1/sessions/{id}/ports/{port}/{path}":    `x`,
		"PATCH /v1/sessions/{id}/ports/{port}/{path}":   `x`,
		"POST /v1/keys/{id}/rotate":                     `{}`,
		"POST /v1/volumes":                              `{"name":""}`,
		"POST /v1/volumes/{id}/lease":                   `{}`,
		"POST /v1/volumes/{id}/release":                 `{"token":1}`,
	}
}

// TestEveryRoute calls all routes of the server's own description and all
// operations of the protocol with credentials that are not sufficient, or not
// completely. A route or operation that is not in the tables fails.
func TestEveryRoute(t *testing.T) {
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
		return k.Secret
	}
	foreign, viewer, run := key("other", "owner"), key("", "viewer"), key("", "run")
	var ticket struct{ Ticket string }
	_, err = srv.JSON(ctx, "POST", "/v1/tickets", map[string]any{
		"scopes": []string{"run"},
		"origin": srv.URL, "expires_seconds": 1,
	}, &ticket)
	check(t, err)
	s, err := root.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
	check(t, err)
	_, err = root.Upload(ctx, s.ID, "a.txt", 0o644, strings.NewReader("x"))
	check(t, err)
	snap, err := root.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.ID})
	check(t, err)
	_, err = root.CreateVolume(ctx, protocol.VolumeCreate{Name: "kept"})
	check(t, err)
	mine, err := root.Keys(ctx, protocol.KeyQuery{})
	check(t, err)

	request := func(method, path, secret string) int {
		id := s.ID
		switch {
		case strings.HasPrefix(path, "/v1/snapshots"):
			id = snap.ID
		case strings.HasPrefix(path, "/v1/volumes"):
			id = "kept"
		case strings.HasPrefix(path, "/v1/keys"):
			id = mine[0].ID
		case strings.HasPrefix(path, "/v1/tenants"):
			id = "local"
		}
		address := strings.NewReplacer("{id}", id, "{port}", "80", "{pid}", "1", "{channel}", "k1",
			"{name}", "web",
			"{link}", "x", "{path}", "a.txt", "{token}", "sgf_x").Replace(path)
		if path == "/v1/sessions/{id}/ports/{port}/wait" {
			address += "?seconds=1"
		}
		var body *strings.Reader
		if text := bodies()[method+" "+path]; text != "" {
			body = strings.NewReader(text)
		}
		var req *http.Request
		if body != nil {
			req, err = http.NewRequestWithContext(ctx, method, srv.URL+address, body)
		} else {
			req, err = http.NewRequestWithContext(ctx, method, srv.URL+address, nil)
		}
		check(t, err)
		if secret != "" {
			req.Header.Set("Authorization", "Bearer "+secret)
		}
		if secret == ticket.Ticket {
			req.Header.Set("Origin", srv.URL)
		}
		if path == "/v1/sessions/{id}/ports/{port}" {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "tcp")
		}
		if path == "/v1/ws" {
			for name, v := range map[string]string{
				"Connection": "Upgrade", "Upgrade": "websocket",
				"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
				"Sec-WebSocket-Protocol": protocol.Subprotocol,
			} {
				req.Header.Set(name, v)
			}
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		check(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	for deadlineOver := false; !deadlineOver; { // until the ticket has expired
		resp := request("POST", "/v1/run/{id}/interrupt", ticket.Ticket)
		deadlineOver = resp == http.StatusUnauthorized
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the ticket does not expire")
		}
	}

	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	_, err = srv.Get(ctx, "/v1/openapi.json", &doc)
	check(t, err)
	var routes []string
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" {
				routes = append(routes, strings.ToUpper(method)+" "+path)
			}
		}
	}
	sort.Strings(routes)
	want := rows(routeAnswers)
	var got strings.Builder
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		var answers []string
		for _, secret := range []string{"", foreign, viewer, run, ticket.Ticket} {
			answers = append(answers, strconv.Itoa(request(method, path, secret)))
		}
		is := strings.Join(answers, " ")
		fmt.Fprintf(&got, "%-52s %s\n", route, is)
		if should, ok := want[route]; !ok {
			t.Errorf("%s is in no table. It answers %s", route, is)
		} else if should != is && (should != "* * * * *" || strings.Contains(is, "401") ||
			strings.Contains(is, "403")) {
			t.Errorf("%s answers %s, want %s", route, is, should)
		}
		delete(want, route)
	}
	for route := range want {
		t.Errorf("there is no route %s", route)
	}
	if testing.Verbose() {
		t.Logf("\n%s", got.String())
	}

	asks := map[string]*asker{
		"foreign": dialAsker(t, ctx, srv, foreign),
		"viewer":  dialAsker(t, ctx, srv, viewer), "run": dialAsker(t, ctx, srv, run),
	}
	want = rows(operationAnswers)
	got.Reset()
	for _, op := range protocolOps(t) {
		var answers []string
		for _, who := range []string{"foreign", "viewer", "run"} {
			answers = append(answers, asks[who].ask(op, s.ID, snap.ID))
		}
		is := strings.Join(answers, " ")
		fmt.Fprintf(&got, "%-20s %s\n", op, is)
		if should, ok := want[op]; !ok {
			t.Errorf("%s is in no table. It answers %s", op, is)
		} else if should != is {
			t.Errorf("%s answers %s, want %s", op, is, should)
		}
		delete(want, op)
	}
	for op := range want {
		t.Errorf("there is no operation %s", op)
	}
	if testing.Verbose() {
		t.Logf("\n%s", got.String())
	}
	// A viewer cannot take over the input of another client by its writer's name.
	writer, _ := json.Marshal(protocol.Attach{Session: s.ID, Channel: "k1", Writer: "w"})
	if got := asks["viewer"].send(protocol.Request{
		Op: protocol.OpAttach, Ch: 2,
		Params: writer,
	}); got != string(fault.PermissionDenied) {
		t.Errorf("a viewer with a writer: %s", got)
	}
	// Input is a frame and not an operation. The connection of a caller without the right ends.
	if code := asks["viewer"].input(); code != fault.PermissionDenied.Row().Close {
		t.Errorf("a viewer's input is answered with %d", code)
	}
	if v, err := root.Session(ctx, s.ID); err != nil || v.State != "running" {
		t.Errorf("the session after all that: %+v, %v", v, err)
	}
}

// rows reads a table whose lines have a name of one or two words, then the answers.
func rows(table string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		n := 1
		if len(words) > 1 && strings.HasPrefix(words[1], "/") {
			n = 2
		}
		if len(words) > n {
			all[strings.Join(words[:n], " ")] = strings.Join(words[n:], " ")
		}
	}
	return all
}

// protocolOps returns the operations that the protocol's source names.
func protocolOps(t *testing.T) []string {
	files, err := filepath.Glob("../protocol/*.go")
	check(t, err)
	var ops []string
	for _, f := range files {
		src, err := os.ReadFile(f)
		check(t, err)
		for _, m := range regexp.MustCompile(`(?m)^\tOp\w+\s+= "([\w.]+)"`).FindAllSubmatch(src,
			-1) {
			ops = append(ops, string(m[1]))
		}
	}
	sort.Strings(ops)
	return ops
}

// asker is a WebSocket that sends operations.
type asker struct {
	t   *testing.T
	ctx context.Context
	ws  *websocket.Conn
	id  uint64
}

func dialAsker(t *testing.T, ctx context.Context, srv *Server, token string) *asker {
	ws, _, err := websocket.Dial(ctx, strings.Replace(srv.URL, "http", "ws", 1)+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + token}},
		})
	check(t, err)
	t.Cleanup(func() { _ = ws.CloseNow() })
	a := &asker{t: t, ctx: ctx, ws: ws}
	if got := a.send(protocol.Request{Op: protocol.OpHello}); got != "ok" {
		t.Fatalf("hello: %s", got)
	}
	return a
}

// ask requests one operation on the session, or on the snapshot if the operation
// needs one. It returns ok or the kind of the error.
func (a *asker) ask(op, session, snapshot string) string {
	all := protocol.Operations()
	row := all[slices.IndexFunc(all, func(o protocol.Operation) bool { return o.Name == op })]
	params, _ := json.Marshal(testenv.ParamsFor(row.Params, map[string]any{
		"session": session, "snapshot": snapshot,
		"channel": "k1", "name": "none", "path": "x", "to": "y", "pid": 1, "signal": "SIGTERM",
		"kind": "terminal", "key": "k",
	}))
	switch op {
	case protocol.OpVolumeGet, protocol.OpVolumeDelete:
		params = []byte(`{"name":"kept"}`)
	case protocol.OpVolumeLease, protocol.OpVolumeRelease:
		params = []byte(`{"name":"kept","token":1}`)
	case protocol.OpVolumeCreate:
		params = []byte(`{"name":""}`)
	case protocol.OpSessionEnsure:
		params = []byte(`{"name":"none","language":"none"}`)
	case protocol.OpFileChanges:
		params = fmt.Appendf(nil, `{"session":%q}`, session)
	}
	if op == protocol.OpSessionCreate {
		params = []byte(`{"language":"none"}`)
	}
	ch := uint32(0)
	if op == protocol.OpAttach {
		ch = 1
	}
	return a.send(protocol.Request{Op: op, Ch: ch, Params: params})
}

func (a *asker) send(r protocol.Request) string {
	a.id++
	r.ID = a.id
	body, err := json.Marshal(r)
	check(a.t, err)
	check(a.t, a.ws.Write(a.ctx, websocket.MessageText, body))
	for {
		typ, b, err := a.ws.Read(a.ctx)
		if err != nil {
			a.t.Fatalf("%s: %v", r.Op, err)
		}
		var reply protocol.Reply
		if typ != websocket.MessageText || json.Unmarshal(b, &reply) != nil || reply.ID != r.ID {
			continue
		}
		if reply.Error != nil {
			return string(reply.Error.Kind)
		}
		return "ok"
	}
}

// input sends a frame of input and returns the close code.
func (a *asker) input() int {
	frame := frame.AppendMessage(nil, frame.Frame{
		Type: frame.Input, Channel: 1,
		Body: []byte("\x00\x00\x00\x00\x00\x00\x00\x01x"),
	})
	check(a.t, a.ws.Write(a.ctx, websocket.MessageBinary, frame))
	for {
		if _, _, err := a.ws.Read(a.ctx); err != nil {
			return int(websocket.CloseStatus(err))
		}
	}
}
