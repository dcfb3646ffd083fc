package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// mutationTime is how long TestMutatedRequests sends requests, and mutationSeed its default seed.
const (
	mutationTime = 6 * time.Second
	mutationSeed = 1
)

// answerWithin is how long a request may take that does not wait for events, and waitFor is how long
// the test waits for the answer to another one.
const (
	answerWithin = time.Minute
	waitFor      = 200 * time.Millisecond
)

func patience(o protocol.Operation) time.Duration {
	if waits(o.Name) {
		return waitFor
	}
	return answerWithin
}

// mutator makes requests that have the form of the operation table, with values that do not.
type mutator struct {
	*rand.Rand
	// names are ids and names that exist, by the names of fields.
	names map[string]any
}

// odd returns a value that fits hardly any field, as JSON.
func (m mutator) odd() json.RawMessage {
	all := []string{
		"null", "true", "-1", "0", "1", "1e308", "-1e308", "9007199254740993", "-9223372036854775808",
		"18446744073709551616", "0.5", `""`, `"\u0000"`, `"\ud800"`, `"\uFEFF\u202Ea\u0301"`, `"ſﬁ𝕏🏳️‍🌈"`,
		`"../../etc/passwd"`, `"-"`, `"s_"`, `"a\nb\r\n"`, `"\\\"'$(id)"`, `"%00%2e%2e"`, "[]", "{}", "[null]", `{"":{}}`,
		`{"a":1,"a":2}`, `["",{}]`, strings.Repeat("[", 200) + strings.Repeat("]", 200),
		strings.Repeat(`{"x":`, 200) + "1" + strings.Repeat("}", 200),
		`"` + strings.Repeat("x", 1<<m.IntN(16)) + `"`, "[" + strings.Repeat("1,", 1<<m.IntN(12)) + "1]",
		strings.Repeat("9", 400), `"` + strings.Repeat("é", 300) + `"`,
	}
	return json.RawMessage(all[m.IntN(len(all))])
}

// value returns a value of a type: a plausible one, or sometimes an odd one.
func (m mutator) value(t reflect.Type, name string, depth int) any {
	if m.IntN(5) == 0 || depth > 6 {
		return m.odd()
	}
	if v, ok := m.names[name]; ok && m.IntN(4) > 0 {
		return v
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.value(t.Elem(), name, depth)
	case reflect.Struct:
		return m.fields(t, depth+1)
	case reflect.Slice, reflect.Array:
		list := []any{}
		for range m.IntN(3) {
			list = append(list, m.value(t.Elem(), name, depth+1))
		}
		return list
	case reflect.Map:
		return map[string]any{[]string{"k", "", "\x00", "é"}[m.IntN(4)]: m.value(t.Elem(), name, depth+1)}
	case reflect.String:
		return []string{"x", "bash", "python", "kernel", "a.txt", "/tmp", "owner", "true", ""}[m.IntN(9)]
	case reflect.Bool:
		return m.IntN(2) == 0
	default:
		return []int64{0, 1, 2, 80, -1, 1 << 31, 1 << 53}[m.IntN(7)]
	}
}

// fields returns an object for a struct, in which fields are missing or unknown.
func (m mutator) fields(t reflect.Type, depth int) map[string]any {
	all := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			for k, v := range m.fields(f.Type, depth) {
				all[k] = v
			}
			continue
		}
		if name == "" || name == "-" || m.IntN(3) == 0 && name != "session" {
			continue
		}
		all[name] = m.value(f.Type, name, depth)
	}
	if m.IntN(30) == 0 {
		all["unknown"] = m.odd()
	}
	return all
}

// params returns parameters for an operation.
func (m mutator) params(o protocol.Operation) json.RawMessage {
	if o.Params == nil || m.IntN(20) == 0 {
		return m.odd()
	}
	t := reflect.TypeOf(o.Params)
	if t.Kind() != reflect.Struct {
		return m.odd()
	}
	text, err := json.Marshal(m.fields(t, 0))
	if err != nil {
		panic(err) // all values are JSON
	}
	return text
}

// mutation sends requests to a server as the owner of a tenant.
type mutation struct {
	t      *testing.T
	ctx    context.Context
	secret string
	m      mutator
	ws     *websocket.Conn
	sent   uint64
	counts map[string]int // by kind of answer
}

// waits reports whether an operation waits for events as long as its parameters say.
func waits(op string) bool {
	switch op {
	case protocol.OpPortWait, protocol.OpEventList, protocol.OpExec, protocol.OpSessionRun,
		protocol.OpRunOnce:
		return true
	}
	return false
}

func (x *mutation) failed(what string, sent []byte, err error) {
	x.t.Helper()
	x.t.Errorf("%s: %v\n%.2000s", what, err, sent)
}

// connect opens a WebSocket.
func (x *mutation) connect() {
	x.t.Helper()
	ws, _, err := websocket.Dial(x.ctx, strings.Replace(server.URL, "http", "ws", 1)+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + x.secret}},
		})
	check(x.t, err)
	ws.SetReadLimit(16 << 20)
	x.ws = ws
}

// overWebSocket sends one request and waits for its reply. A request that is not valid may end the
// connection instead.
func (x *mutation) overWebSocket(o protocol.Operation) {
	x.t.Helper()
	if x.ws == nil {
		x.connect()
	}
	x.sent++
	ch := []string{"0", "1", "4294967295", "-1"}[min(3, x.m.IntN(12))]
	text := fmt.Appendf(nil, `{"id":%d,"op":%q,"ch":%s,"params":%s}`, x.sent, o.Name, ch,
		x.m.params(o))
	ctx, cancel := context.WithTimeout(x.ctx, patience(o))
	defer cancel()
	err := x.ws.Write(ctx, websocket.MessageText, text)
	for err == nil {
		var data []byte
		var kind websocket.MessageType
		if kind, data, err = x.ws.Read(ctx); err != nil || kind != websocket.MessageText {
			continue
		}
		var r protocol.Reply
		if bad := json.Unmarshal(data, &r); bad != nil {
			x.failed("a reply that is no JSON", data, bad)
			return
		}
		if r.ID != x.sent {
			continue // an event
		}
		if r.Error == nil {
			x.counts["ok"]++
			return
		}
		x.counts[string(r.Error.Kind)]++
		if r.Error.Kind == fault.Internal {
			x.failed("internal", text, errors.New(r.Error.Message))
		}
		return
	}
	code := websocket.CloseStatus(err)
	x.counts[fmt.Sprintf("close %d", code)]++
	if ctx.Err() != nil && !waits(o.Name) {
		x.failed("no reply", text, err)
	} else if ctx.Err() != nil {
		x.counts["waits"]++
	}
	if code == websocket.StatusInternalError || int(code) == fault.Internal.Row().Close {
		x.failed("internal", text, err)
	}
	_ = x.ws.CloseNow()
	x.ws = nil
}

var pathVariable = regexp.MustCompile(`\{(\w+)\}`)

// overHTTP sends one request to a route.
func (x *mutation) overHTTP(o protocol.Operation, r protocol.Route) {
	x.t.Helper()
	path := pathVariable.ReplaceAllStringFunc(r.Path, func(v string) string {
		if known, ok := x.m.names[strings.Trim(v, "{}")]; ok && x.m.IntN(3) > 0 {
			return fmt.Sprint(known)
		}
		return url.PathEscape(strings.Trim(string(x.m.odd()), `"`))
	})
	params := x.m.params(o)
	address, body := server.URL+"/"+strings.TrimLeft(path, "/"), string(params)
	if r.Method == http.MethodGet {
		query := url.Values{}
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(params, &fields)
		for k, v := range fields {
			query.Set(k, strings.Trim(string(v), `"`))
		}
		address, body = address+"?"+query.Encode(), ""
	} else if x.m.IntN(10) == 0 {
		body = body[:x.m.IntN(len(body)+1)]
	}
	ctx, cancel := context.WithTimeout(x.ctx, patience(o))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, address, strings.NewReader(body))
	if err != nil {
		return // Go's client refuses it
	}
	req.Header.Set("Authorization", "Bearer "+x.secret)
	sent := fmt.Appendf(nil, "%s %s %s", r.Method, address, body)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		if !waits(o.Name) {
			x.failed("no response", sent, err)
		}
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	x.counts["HTTP "+strconv.Itoa(resp.StatusCode)]++
	if resp.StatusCode == http.StatusInternalServerError {
		x.failed("internal", sent, fmt.Errorf("%s %v", text, err))
	}
}

// goroutines returns how many goroutines the node and the gateway of the shared server have.
func goroutines(t *testing.T) (n int) {
	t.Helper()
	resp, err := server.Do(t.Context(), "GET", "/metrics", nil)
	check(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(t, err)
	for _, found := range regexp.MustCompile(`(?m)^sandgate_\w+_goroutines (\d+)`).FindAllSubmatch(text, -1) {
		one, err := strconv.Atoi(string(found[1]))
		check(t, err)
		n += one
	}
	if n == 0 {
		t.Fatal("the metrics have no goroutines")
	}
	return n
}

// TestMutatedRequests sends requests of all operations, over WebSockets and HTTP, with values of wrong
// types and sizes, missing and unknown fields. No answer is internal, none is missing, and nothing
// stays. SANDGATE_FUZZ is its duration and SANDGATE_SEED its seed.
func TestMutatedRequests(t *testing.T) {
	long, seed := mutationTime, uint64(mutationSeed)
	if text := os.Getenv("SANDGATE_FUZZ"); text != "" {
		var err error
		long, err = time.ParseDuration(text)
		check(t, err)
		seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv("SANDGATE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		check(t, err)
	}
	t.Logf("SANDGATE_SEED=%d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), long+3*time.Minute)
	defer cancel()
	root, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	check(t, root.SetQuota(ctx, "mutated", &protocol.Quota{Sessions: 3, Running: 2, Snapshots: 2}))
	defer func() { check(t, root.SetQuota(context.WithoutCancel(ctx), "mutated", nil)) }()
	k, err := root.CreateKey(ctx, protocol.KeyCreate{Tenant: "mutated", Role: "owner"})
	check(t, err)
	defer func() { check(t, root.RevokeKey(context.WithoutCancel(ctx), k.Key.ID)) }()
	c, err := wire.New(server.URL, k.Secret, wire.Options{})
	check(t, err)
	x := &mutation{t: t, ctx: ctx, secret: k.Secret, counts: map[string]int{}}
	x.m.Rand = rand.New(rand.NewPCG(seed, 0))

	// The session is made before the count, and again whenever a request has ended it.
	session := func() string {
		if known, ok := x.m.names["session"].(string); ok {
			if s, err := c.Session(ctx, known); err == nil && s.State != "lost" {
				return known
			}
		}
		clearTenant(ctx, t, c)
		s, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
		check(t, err)
		return s.ID
	}
	x.m.names = map[string]any{"session": session(), "channel": "k1", "cell": 1}
	before := goroutines(t)
	operations := protocol.Operations()
	for until, n := time.Now().Add(long), 0; time.Now().Before(until) && !t.Failed(); n++ {
		o := operations[x.m.IntN(len(operations))]
		if n%50 == 0 {
			x.m.names["session"] = session()
		}
		if o.Name == protocol.OpKeyRevoke || o.Name == protocol.OpKeyRotate {
			continue // it could end the key of this test
		}
		if len(o.REST) > 0 && x.m.IntN(2) == 0 {
			x.overHTTP(o, o.REST[x.m.IntN(len(o.REST))])
		} else {
			x.overWebSocket(o)
		}
	}
	if x.ws != nil {
		_ = x.ws.CloseNow()
	}
	clearTenant(ctx, t, c)
	t.Logf("answers: %v", x.counts)
	if x.counts["ok"] == 0 || x.counts[string(fault.InvalidArgument)] == 0 {
		t.Error("no request was answered")
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	eventually(t, "the goroutines of the requests end", func() bool {
		return goroutines(t) <= before+20 // pools and caches
	})
}

// clearTenant deletes what a tenant has.
func clearTenant(ctx context.Context, t *testing.T, c *wire.Client) {
	t.Helper()
	sessions, err := c.Sessions(ctx)
	check(t, err)
	for _, s := range sessions {
		if err := c.DeleteSession(ctx, s.ID); err != nil && !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	}
	snapshots, err := c.Snapshots(ctx)
	check(t, err)
	for _, s := range snapshots {
		check(t, c.DeleteSnapshot(ctx, s.ID))
	}
	volumes, err := c.Volumes(ctx)
	check(t, err)
	for _, v := range volumes {
		check(t, c.DeleteVolume(ctx, v.Name))
	}
}
