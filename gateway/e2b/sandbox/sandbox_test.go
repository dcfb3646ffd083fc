package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

func TestID(t *testing.T) {
	if id := e2bname.ID("s_abc234"); id != "iabc234" {
		t.Error(id)
	}
	if s, ok := e2bname.Session("iabc234"); !ok || s != "s_abc234" {
		t.Error(s, ok)
	}
	for _, wrong := range []string{
		"", "i", "abc", "i_abc", "i/abc", "iABC", "iabc-d", "i" + strings.Repeat("a", 64),
	} {
		if s, ok := e2bname.Session(wrong); ok {
			t.Errorf("%q became %q", wrong, s)
		}
	}
}

func TestParseDomain(t *testing.T) {
	for text, want := range map[string]Domain{
		"": {}, "sbx.Example.org": {Name: "sbx.example.org"},
		"sbx.test:8443": {Name: "sbx.test", Port: ":8443"},
	} {
		if d, err := ParseDomain(text); err != nil || d != want {
			t.Errorf("%q became %+v, %v", text, d, err)
		}
	}
	for _, wrong := range []string{"https://x", "a b", ":80", "x:", "x:y", ".x", "x."} {
		if d, err := ParseDomain(wrong); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%q became %+v, %v", wrong, d, err)
		}
	}
}

// TestTarget checks which requests are for a sandbox, and for which port.
func TestTarget(t *testing.T) {
	d := Domain{Name: "sbx.test"}
	for name, c := range map[string]struct {
		host, id, port string
		addressed      bool
		session        string
		number         int
		err            fault.Kind
	}{
		"none":           {host: "localhost"},
		"api":            {host: "api.sbx.test"},
		"other domain":   {host: "80-iabc.example.org"},
		"host":           {host: "80-iabc.SBX.test:1", addressed: true, session: "s_abc", number: 80},
		"host and parts": {host: "80-iabc-d.sbx.test", addressed: true, session: "s_abc", number: 80},
		"headers": {
			host: "localhost", id: "iabc", port: "80", addressed: true,
			session: "s_abc", number: 80,
		},
		"host before headers": {
			host: "80-iabc.sbx.test", id: "iother", port: "81", addressed: true, session: "s_abc",
			number: 80,
		},
		"no id":   {host: "localhost", port: "80", addressed: true, err: fault.Malformed},
		"no port": {host: "localhost", id: "iabc", addressed: true, err: fault.Malformed},
		"bad port": {
			host: "localhost", id: "iabc", port: "08", addressed: true,
			err: fault.Malformed,
		},
		"bad id": {
			host: "localhost", id: "abc", port: "80", addressed: true,
			err: fault.NotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = c.host
			if c.id != "" {
				r.Header.Set(headerID, c.id)
			}
			if c.port != "" {
				r.Header.Set(headerPort, c.port)
			}
			if got := d.Addressed(r); got != c.addressed {
				t.Fatalf("addressed: %t", got)
			}
			if !c.addressed {
				return
			}
			got, err := d.Target(r)
			if c.err != "" {
				if !fault.Is(err, c.err) {
					t.Fatal(err)
				}
				return
			}
			if err != nil || got.Session != c.session || got.Port != c.number {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// found is a source of owners that returns one answer.
type found struct {
	owner nodes.SessionOwner
	err   error
}

func (f found) Owner(context.Context, string) (nodes.SessionOwner, error) {
	return f.owner, f.err
}

// TestResolve checks that the error of a sandbox that does not run has the status 502 and says why.
func TestResolve(t *testing.T) {
	paused := nodes.SessionOwner{Tenant: "t", Suspended: true}
	resumes := paused
	resumes.Labels = map[string]string{
		e2bname.LabelOptions: e2bname.Options{AutoResume: true}.Label(),
	}
	for name, c := range map[string]struct {
		from   found
		status int
		text   string
	}{
		"running":     {found{owner: nodes.SessionOwner{Tenant: "t", Subject: "key:a"}}, 0, ""},
		"killed":      {found{owner: nodes.SessionOwner{Ended: "deleted"}}, 502, "killed"},
		"expired":     {found{owner: nodes.SessionOwner{Ended: "expired"}}, 502, "expired"},
		"never":       {found{err: fault.New(fault.NotFound, "op", "x")}, 502, "never existed"},
		"paused":      {found{owner: paused}, 502, "paused"},
		"auto resume": {found{owner: resumes}, 0, ""},
		"other error": {found{err: fault.New(fault.Exhausted, "op", "x")}, 429, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			target := &Target{ID: "iabc", Session: "s_abc"}
			err := target.Resolve(t.Context(), NewLookup(c.from, func() {}), "a", false)
			if c.status == 0 {
				if err != nil || target.Who.Tenant != "t" || len(target.Who.Scopes) != 2 {
					t.Errorf("%+v, %v", target, err)
				}
				return
			}
			w := httptest.NewRecorder()
			WriteError(w, err, "")
			var body errorBody
			if json.Unmarshal(w.Body.Bytes(), &body) != nil || w.Code != c.status ||
				body.Code != c.status || !strings.Contains(body.Message, c.text) ||
				c.status == 502 && body.SandboxID != "iabc" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

// TestWriteError checks the status in the body, the field, and the time of the next attempt.
func TestWriteError(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		text   string
		retry  string
	}{
		"field":   {fault.Invalid("op", "timeout", "it is negative"), 400, "timeout: it is negative", ""},
		"full":    {fault.New(fault.Exhausted, "op", "full"), 429, "full", "1"},
		"status":  {WithStatus(409, fault.New(fault.NotFound, "op", "x")), 409, "x", ""},
		"unknown": {errors.New("secret"), 500, "", ""},
		"closed": {
			(&Target{ID: "iabc", Port: 80}).Closed(fault.New(fault.Unavailable, "op", "closed")), 502,
			`closed`, "",
		},
	} {
		w := httptest.NewRecorder()
		WriteError(w, c.err, "trace")
		var body errorBody
		if json.Unmarshal(w.Body.Bytes(), &body) != nil || w.Code != c.status ||
			body.Code != c.status || !strings.Contains(body.Message, c.text) ||
			strings.Contains(w.Body.String(), "secret") ||
			w.Header().Get("Retry-After") != c.retry ||
			w.Header().Get("X-E2B-Trace-ID") != "trace" {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
}
