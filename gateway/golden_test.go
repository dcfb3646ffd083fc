package gateway

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/golden"
)

// goldenTypes are the bodies of the REST interface that are not messages of sandgate.v1.
func goldenTypes() map[string]any {
	return map[string]any{
		"GET /v1": description{}, "GET /v1/status": statusReply{},
		"POST /v1/tickets": ticketRequest{}, "POST /v1/tickets result": ticketReply{},
		"POST /v1/tickets result for runs":                        runTokenReply{},
		"POST /v1/sessions/{id}/ports":                            portRequest{},
		"POST /v1/sessions/{id}/ports result":                     portReply{},
		"POST /v1/sessions/{id}/links":                            viewLinkRequest{},
		"POST /v1/sessions/{id}/links result":                     viewLinkReply{},
		"POST /auth/token result":                                 userToken{},
		"POST /v1/sessions/{id}/ports/links/{link}/ticket result": linkTicketReply{},
	}
}

func TestGoldenBodies(t *testing.T) {
	types := goldenTypes()
	golden.Records(t, "bodies.json", types, protocol.Network{Allow: []string{"example.org"}})
	golden.Covers(t, types)
}

// TestGoldenRoutes compares the routes and the credentials that may use them.
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
		}{
			{r.Body > 0, "body"},
			{r.Upgrade, "upgrade"},
			{r.Run, "run-ticket"},
			{r.Public, "public"},
			{r.Cookie, "cookie"},
			{r.Port, "port"},
			{r.match != nil, "chosen"},
			{r.ownHost, "any-host"},
			{r.anyOrigin, "any-origin"},
			{r.authenticate != nil, "own-credentials"},
		} {
			if f.is {
				line += " " + f.name
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	golden.Text(t, "routes.txt", strings.Join(lines, "\n")+"\n")
}

// TestGoldenMetrics compares the names, types and labels of the metrics.
func TestGoldenMetrics(t *testing.T) {
	url, _ := serveNode(t, &listening{notes: make(chan protocol.AuditNotes, 100)})
	_, body := get(t, url+"/metrics", tokenAll)
	golden.Text(t, "metrics.txt", golden.Metrics(body))
}
