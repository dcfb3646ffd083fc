package e2b

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// tokens are the tokens of all sandboxes.
type tokens struct{}

func (tokens) Bearer(string) (noderpc.Principal, error) { return noderpc.Principal{}, nil }

func (tokens) SandboxToken(purpose, _ string) (string, error) { return purpose, nil }

func (tokens) Valid(noderpc.Principal) bool { return true }

// TestInterpreterToken checks which requests to the interpreter need a token, with each value of the
// setting.
func TestInterpreterToken(t *testing.T) {
	insecure := e2bname.Options{Insecure: true}
	for _, c := range []struct {
		name          string
		open, allowed bool
		options       e2bname.Options
		header        http.Header
	}{
		{"without the setting", false, false, insecure, nil},
		{"with it", true, true, insecure, nil},
		{"a secure sandbox", true, false, e2bname.Options{}, nil},
		{"private ports", true, false, e2bname.Options{Insecure: true, PrivatePorts: true}, nil},
		{"a wrong token", true, false, insecure, http.Header{headerAccess: {"x"}}},
		{"an empty token", true, false, insecure, http.Header{headerTraffic: {""}}},
		{"a page", true, false, insecure, http.Header{"Origin": {"https://example.com"}}},
		{"a token", false, true, e2bname.Options{}, http.Header{headerAccess: {"access"}}},
	} {
		s := &Surface{cfg: Config{Auth: tokens{}, OpenInterpreter: c.open}}
		r := httptest.NewRequest(http.MethodPost, "/execute", nil)
		if c.header != nil {
			r.Header = c.header
		}
		target := &sandbox.Target{Port: sandbox.InterpreterPort, Options: c.options}
		target.Token = equal(r.Header.Get(headerAccess), "access")
		err := s.checkToken(r, target)
		if (err == nil) != c.allowed || err != nil && !fault.Is(err, fault.PermissionDenied) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// ended is a source of owners of sessions that were killed.
type ended struct{}

func (ended) Owner(context.Context, string) (nodes.SessionOwner, error) {
	return nodes.SessionOwner{Ended: "deleted"}, nil
}

// begun is a response that may have begun.
type begun struct {
	*httptest.ResponseRecorder
	started bool
}

func (b begun) Started() bool { return b.started }

// TestEndedSinceLookup checks that a request which used an earlier lookup gets the reason for the end
// of its sandbox, and that a response that has begun is cut.
func TestEndedSinceLookup(t *testing.T) {
	s := &Surface{cfg: Config{Call: time.Minute}, lookup: sandbox.NewLookup(ended{}, func() {})}
	for _, c := range []struct{ recent, started, cut bool }{
		{true, false, false}, {true, true, true}, {false, false, true},
	} {
		r := httptest.NewRequest(http.MethodPost, "/execute", nil)
		w := begun{httptest.NewRecorder(), c.started}
		target := &sandbox.Target{ID: "iabc", Session: "s_abc", Token: true, Recent: c.recent}
		cut := func() (cut bool) {
			defer func() { cut = recover() == http.ErrAbortHandler }()
			defer s.explain(w, r, target)
			panic(http.ErrAbortHandler)
		}()
		if cut != c.cut || !cut && (w.Code != http.StatusBadGateway ||
			!strings.Contains(w.Body.String(), "killed")) {
			t.Errorf("%+v: cut %t, %d %s", c, cut, w.Code, w.Body)
		}
	}
}
