package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/golden"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// goldenTypes are the bodies of the REST interface that are no messages of
// sandgate.v1, and what a gateway seals or stores.
func goldenTypes() map[string]any {
	return map[string]any{
		"error": errorBody{}, "cast header": castHeader{}, "GET /readyz": readiness{}, "GET /v1": description{}, "GET /v1/status": statusReply{},
		"POST /v1/run/{id}/input": runInput{}, "POST /v1/run/{id}/interrupt": runStop{},
		"POST /v1/tickets": ticketRequest{}, "POST /v1/tickets result": ticketReply{}, "POST /v1/tickets result for runs": runTicketReply{},
		"POST /v1/sessions/{id}/ports": portRequest{}, "POST /v1/sessions/{id}/ports result": portReply{},
		"POST /v1/sessions/{id}/links": viewLinkRequest{}, "POST /v1/sessions/{id}/links result": viewLinkReply{},
		"POST /v1/sessions/{id}/files/{path}": fileChange{}, "POST /auth/token result": userToken{},
		"sealed ticket": ticket{}, "sealed run ticket": runTicket{}, "sealed view link": viewLink{},
		"sealed user": user{}, "sealed sign-in": attempt{}, "sealed": sealedThing[viewLink]{},
	}
}

func TestGoldenBodies(t *testing.T) {
	types := goldenTypes()
	golden.Records(t, "bodies.json", types, protocol.Network{Allow: []string{"example.org"}})
	golden.Covers(t, types, "awaited", "sealedThing")
}

// TestGoldenRoutes compares the routes with what may use them.
func TestGoldenRoutes(t *testing.T) {
	g, err := New(Config{}, Remote(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range g.routes {
		line := fmt.Sprintf("%s %s access=%s", r.Method, r.Path, r.Access)
		for _, f := range []struct {
			is   bool
			name string
		}{{r.Body > 0, "body"}, {r.Upgrade, "upgrade"}, {r.Run, "run-ticket"}, {r.Public, "public"}, {r.Cookie, "cookie"}, {r.Port, "port"}} {
			if f.is {
				line += " " + f.name
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	golden.Text(t, "routes.txt", strings.Join(lines, "\n")+"\n")
}

// TestGoldenScopes compares the scopes of the operations over a WebSocket.
func TestGoldenScopes(t *testing.T) {
	names, err := os.ReadFile("../protocol/testdata/golden/operations.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for op := range strings.Lines(string(names)) {
		op = strings.TrimSpace(op)
		if scope, ok := opScope(op); ok {
			fmt.Fprintf(&out, "%s %s\n", op, scope)
		}
	}
	golden.Text(t, "operation-scopes.txt", out.String())
}

// TestGoldenMetrics compares the names, types and labels of the metrics.
func TestGoldenMetrics(t *testing.T) {
	url, _ := serveNode(t, &listening{notes: make(chan protocol.AuditNotes, 100)})
	_, body := get(t, url+"/metrics", tokenAll)
	golden.Text(t, "metrics.txt", golden.Metrics(body))
}

// TestGoldenSealed opens what commit 80200dc sealed: links for viewing, cookies
// and tickets that are still in use when a gateway is replaced.
func TestGoldenSealed(t *testing.T) {
	const file = "sealed-80200dc.txt"
	g, err := New(Config{}, Remote(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	g.keys.set(tenant.Table{Version: 1, Seal: bytes.Repeat([]byte{1}, 32)})
	var link viewLink
	var u user
	var a attempt
	var one ticket
	var run runTicket
	var who noderpc.Principal
	until := time.Date(2126, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, v := range []any{&link, &u, &a, &one, &run, &who} {
		golden.Fill(t, v)
	}
	if _, err := os.Stat(golden.File(file)); golden.Updating() && errors.Is(err, fs.ErrNotExist) {
		life, texts := time.Until(until), map[string]string{}
		texts["view link"], _ = sealFor(g, "view link", life, link)
		texts["session cookie"], _ = sealFor(g, "session cookie", life, u)
		texts["session token"], _ = sealFor(g, "session token", life, u)
		texts["sign-in cookie"], _ = sealFor(g, "sign-in cookie", life, a)
		texts["ticket connect:name"], _ = sealFor(g, "ticket connect:name", life, one)
		texts["run ticket id"], _ = sealFor(g, "run ticket id", life, run)
		texts["port cookie s_x:80"], _ = sealFor(g, "port cookie s_x:80", life, who)
		golden.Lines(t, file, texts)
	}
	checkSealed(t, g, "view link", link)
	checkSealed(t, g, "session cookie", u)
	checkSealed(t, g, "session token", u)
	checkSealed(t, g, "sign-in cookie", a)
	checkSealed(t, g, "ticket connect:name", one)
	checkSealed(t, g, "run ticket id", run)
	checkSealed(t, g, "port cookie s_x:80", who)
	golden.Lines(t, "prefixes.txt", map[string]string{
		"purposes": fmt.Sprintf("%q", []string{purposeView, purposeCookie, purposeToken, purposeSignIn, purposeRun, purposePort}),
		"tokens":   fmt.Sprintf("%q", []string{runPrefix, userPrefix, viewPrefix, ticketPrefix}),
		"cookies":  fmt.Sprintf("%q", []string{sessionCookie, signInCookie}),
	})
}

func checkSealed[T any](t *testing.T, g *Gateway, purpose string, want T) {
	t.Helper()
	for line := range strings.Lines(golden.Read(t, "sealed-80200dc.txt")) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if key != purpose {
			continue
		}
		if got, ok, err := openSealed[T](g, purpose, text); err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: opened as %+v, %v, %v; want %+v", purpose, got, ok, err, want)
		}
		return
	}
	t.Errorf("nothing was sealed for %q", purpose)
}
