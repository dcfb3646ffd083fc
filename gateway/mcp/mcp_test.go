package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestDescriptions checks what hosts need of the descriptions of tools.
func TestDescriptions(t *testing.T) {
	all, err := descriptions()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
		if !regexp.MustCompile(`^[a-z_]{1,64}$`).MatchString(d.Name) || d.Description == "" ||
			d.Title == "" || d.Annotations == nil {
			t.Errorf("%q lacks a part", d.Name)
		}
		for label, schema := range map[string]any{"in": d.InputSchema, "out": d.OutputSchema} {
			raw, err := json.Marshal(schema)
			if err != nil || regexp.MustCompile(`"(\$ref|anyOf|oneOf|allOf)"`).Match(raw) {
				t.Errorf("%s: %s is not simple: %v", d.Name, label, err)
			}
			var s struct {
				Type       string
				Properties map[string]struct{ Type, Description string }
				Required   []string
			}
			if err := json.Unmarshal(raw, &s); err != nil || s.Type != "object" {
				t.Errorf("%s: %s is no object: %v", d.Name, label, err)
			}
			for _, name := range s.Required {
				if _, ok := s.Properties[name]; !ok {
					t.Errorf("%s requires %q, which it does not describe", d.Name, name)
				}
			}
			for name, p := range s.Properties {
				if p.Type == "" || label == "in" && p.Description == "" {
					t.Errorf("%s: %s has no type or no description", d.Name, name)
				}
			}
		}
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(tools())); !slices.Equal(names, want) {
		t.Errorf("described are %v, there are %v", names, want)
	}
}

// TestCut keeps the head and the tail of a long text.
func TestCut(t *testing.T) {
	note := func(int) string { return "[note]" }
	if s, left := cut("short", note); s != "short" || left != 0 {
		t.Error(s, left)
	}
	s, left := cut("head"+strings.Repeat("ä", 50000)+"tail", note)
	if !strings.HasPrefix(s, "head") || !strings.HasSuffix(s, "tail") ||
		!strings.Contains(s, "\n[note]\n") || len(s) > headText+tailText+8 ||
		left < 100008-headText-tailText || strings.Contains(s, "\uFFFD") {
		t.Errorf("%d bytes, %d left out", len(s), left)
	}
}

// TestReadText reads lines, and says where to continue.
func TestReadText(t *testing.T) {
	long := strings.Repeat("x", maxLine-1)
	three := strings.Repeat(long+"\n", 3)
	for _, x := range []struct {
		text         string
		start, count int
		want         fileText
	}{
		{"a\nb\nc", 1, 9, fileText{StartLine: 1, Content: "a\nb\nc", Lines: 3}},
		{"a\nb\nc\n", 2, 1, fileText{StartLine: 2, Content: "b\n", Lines: 1, NextLine: 3}},
		{"a\nb\n", 2, 1, fileText{StartLine: 2, Content: "b\n", Lines: 1}},
		{"a\n", 5, 1, fileText{StartLine: 5}},
		{three + three, 1, 9, fileText{StartLine: 1, Content: three, Lines: 3, NextLine: 4}},
		{long + "yz\nnext", 1, 1, fileText{
			StartLine: 1, Content: long + "y [the line is cut]\n", Lines: 1, NextLine: 2,
		}},
	} {
		got, err := readText(bufio.NewReader(strings.NewReader(x.text)), x.start, x.count)
		if err != nil || got != x.want {
			t.Errorf("%.20q from %d: %d lines, next %d, %v", x.text, x.start, got.Lines,
				got.NextLine, err)
		}
	}
}

// TestIsText distinguishes texts and other files, also if a character is cut.
func TestIsText(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "ä": true, "a\xc3": true, "a\x00": false, "\xff\xfe\xfa\xfb": false,
	} {
		if isText([]byte(text)) != want {
			t.Errorf("%q", text)
		}
	}
}

// TestConnections counts connections of each user and of all.
func TestConnections(t *testing.T) {
	c := newConnections()
	server := sdk.NewServer(&sdk.Implementation{}, nil)
	var last func(*sdk.Server, string)
	for range maxUserConnections {
		done, err := c.admit("ada")
		if err != nil {
			t.Fatal(err)
		}
		last = done
	}
	if _, err := c.admit("ada"); !fault.Is(err, fault.Exhausted) {
		t.Errorf("one connection too many: %v", err)
	}
	if _, err := c.admit("bob"); err != nil {
		t.Errorf("another user: %v", err)
	}
	last(server, "none") // it did not begin
	if _, err := c.admit("ada"); err != nil {
		t.Errorf("after an end: %v", err)
	}
}

// TestKeepAlive writes comments while there is no event, also before the first one.
func TestKeepAlive(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("X-Before", "1")
	k := newKeepAlive(w, time.Hour)
	k.comment()
	k.Header().Set("Content-Type", "text/event-stream")
	if _, err := k.Write([]byte("data: 1\n\n")); err != nil {
		t.Fatal(err)
	}
	k.comment()
	k.stop()
	k.comment()
	if got := w.Body.String(); got != ": keepalive\n\ndata: 1\n\n: keepalive\n\n" ||
		w.Header().Get("Content-Type") != "text/event-stream" || w.Header().Get("X-Before") != "1" {
		t.Errorf("%q %v", got, w.Header())
	}
	quick := httptest.NewRecorder()
	k = newKeepAlive(quick, time.Hour)
	k.Header().Set("Content-Type", "text/plain")
	k.WriteHeader(http.StatusAccepted)
	k.stop()
	if quick.Code != http.StatusAccepted || quick.Header().Get("Content-Type") != "text/plain" {
		t.Error(quick.Code, quick.Header())
	}
}

// TestPanic answers a call whose tool panics, and a call without a request.
func TestPanic(t *testing.T) {
	s := &Surface{cfg: Config{Base: context.Background(), Log: slog.New(slog.DiscardHandler)}}
	req := &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{}}
	r, err := s.handler(func(context.Context, *call) (*sdk.CallToolResult, error) {
		panic("test")
	})(context.Background(), req)
	if err != nil || !r.IsError {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := s.callerOf(req); !fault.Is(err, fault.Internal) {
		t.Errorf("no request: %v", err)
	}
}

// TestUserID keeps the subjects of two tenants apart.
func TestUserID(t *testing.T) {
	if userID(noderpc.Principal{Tenant: "a", Subject: "bc"}) ==
		userID(noderpc.Principal{Tenant: "ab", Subject: "c"}) {
		t.Error("two users are one")
	}
}

// TestCallerOf: headers of a request come before the operator's settings, and a setting before the
// default.
func TestCallerOf(t *testing.T) {
	set := surfaces.Defaults(surfaces.MCP)
	set.Template, set.Network, set.UserHeader = "science", []string{"a.example"}, "X-Person"
	s := &Surface{cfg: Config{Settings: set}}
	caller := func(header ...string) caller {
		t.Helper()
		r := httptest.NewRequest("POST", Path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		c, err := s.callerOf(&sdk.CallToolRequest{Extra: &sdk.RequestExtra{
			TokenInfo: &auth.TokenInfo{Extra: map[string]any{callerKey: r}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := caller("X-Person", "ada", "X-Sandgate-Conversation", "c", "Mcp-Session-Id", "connection")
	if c.policy.Template != "science" || c.policy.Network == nil ||
		!slices.Equal(c.policy.Network.Allow, set.Network) ||
		c.policy.IdleDeleteSeconds != 24*3600 || c.place.User != "ada" ||
		c.place.Conversation != "c" {
		t.Errorf("%+v %+v", c.policy, c.place)
	}
	c = caller(headerTemplate, "other", headerNetwork, "off", "X-Sandgate-User", "eve")
	if c.policy.Template != "other" || c.policy.Network != nil || c.place.User != "" {
		t.Errorf("%+v %+v", c.policy, c.place)
	}
	if c = caller(headerNetwork, "on"); c.policy.Network == nil || c.policy.Network.Allow != nil {
		t.Errorf("%+v", c.policy.Network)
	}
	limited := &call{Surface: s}
	s.cfg.Settings.Timeout = 5 * time.Second
	if limited.most(60) != 5 || limited.most(3) != 3 {
		t.Error("the operator's limit has no effect")
	}
}
