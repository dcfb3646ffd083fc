package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

type client struct {
	t  testing.TB
	ws *websocket.Conn
}

func (w *world) dial(token string) *client {
	w.t.Helper()
	ws, _, err := websocket.Dial(context.Background(), "ws://"+w.addr+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + token}},
		})
	if err != nil {
		w.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	w.t.Cleanup(func() { _ = ws.CloseNow() })
	return &client{w.t, ws}
}

func (c *client) text(s string) {
	c.t.Helper()
	if err := c.ws.Write(context.Background(), websocket.MessageText, []byte(s)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) frame(f frame.Frame) {
	c.t.Helper()
	if err := c.ws.Write(context.Background(), websocket.MessageBinary,
		frame.AppendMessage(nil, f)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) next() (websocket.MessageType, []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	typ, b, err := c.ws.Read(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return typ, b
}

func (c *client) reply() protocol.Reply {
	c.t.Helper()
	for {
		typ, b := c.next()
		if typ != websocket.MessageText {
			continue
		}
		var r protocol.Reply
		if err := json.Unmarshal(b, &r); err != nil {
			c.t.Fatal(err)
		}
		return r
	}
}

// closed reads until the connection is closed and returns the code.
func (c *client) closed() websocket.StatusCode {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for {
		if _, _, err := c.ws.Read(ctx); err != nil {
			if ctx.Err() != nil {
				c.t.Fatal("the connection was not closed")
			}
			return websocket.CloseStatus(err)
		}
	}
}

func (c *client) hello() *client {
	c.t.Helper()
	c.text(`{"id":1,"op":"hello","params":{"client":"test"}}`)
	r := c.reply()
	var wel protocol.Welcome
	if err := json.Unmarshal(r.Result, &wel); err != nil || r.ID != 1 ||
		wel.Protocol != protocol.Subprotocol || wel.Server != "sandgate/test" {
		c.t.Fatalf("%+v", r)
	}
	return c
}

func code(k fault.Kind) websocket.StatusCode { return websocket.StatusCode(k.Row().Close) }

func TestRelay(t *testing.T) {
	w := newWorld(t, nil)
	id := w.session()
	c := w.dial(tokenAll).hello()
	c.text(`{"id":2,"op":"session.get","params":{"session":"` + id + `"}}`)
	if r := c.reply(); r.ID != 2 || !strings.Contains(string(r.Result), id) {
		t.Errorf("%+v", r)
	}
	c.text(`{"id":3,"op":"attach","ch":9,"params":{"session":"fixed","channel":"k1"}}`)
	c.reply()
	for i := range 3 {
		want := fmt.Sprintf("input %d", i)
		c.frame(frame.Frame{
			Type: frame.Input, Channel: 9,
			Body: append(binary.BigEndian.AppendUint64(nil, uint64(i+1)), want...),
		})
		_, b := c.next()
		f, err := frame.ParseMessage(b)
		if err != nil || f.Type != frame.Records || f.Channel != 9 {
			t.Fatal(f, err)
		}
		rec, _, err := frame.ParseRecord(f.Body[8:])
		if err != nil || string(rec.Payload) != want {
			t.Fatal(rec, err)
		}
	}
	c.frame(frame.Frame{Type: frame.Ack, Channel: 9, Body: binary.BigEndian.AppendUint64(nil,
		77)})
	w.fake.await(t, "the ack", func() bool { return w.fake.acks == 77 })
	if err := c.ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	w.fake.await(t, "the link's end", func() bool { return w.fake.links == 0 })
}

func TestAbuse23_ScopesOfOps(t *testing.T) {
	w := newWorld(t, nil)
	c := w.dial(tokenViewer).hello()
	for _, row := range []struct {
		text string
		kind fault.Kind
	}{
		{`{"id":2,"op":"session.create"}`, fault.PermissionDenied},
		{`{"id":2,"op":"execute","ch":1,"params":{}}`, fault.PermissionDenied},
		{`{"id":2,"op":"status"}`, fault.PermissionDenied},
		{`{"id":2,"op":"file.write","params":{}}`, fault.Unsupported},
		{`{"id":2,"op":"node.bye"}`, fault.Unsupported},
		{`{"id":2,"op":"hello"}`, fault.Conflict},
		{`{"id":2,"op":5}`, fault.InvalidArgument},
		{`{"id":2}`, fault.InvalidArgument},
		{`{"id":2,"op":"attach","ch":-1}`, fault.InvalidArgument},
	} {
		c.text(row.text)
		if r := c.reply(); r.ID != 2 || r.Error == nil || r.Error.Kind != row.kind {
			t.Errorf("%s: %+v", row.text, r)
		}
	}
	c.text(`{"id":3,"op":"session.list"}`)
	if r := c.reply(); r.ID != 3 || r.Error != nil {
		t.Errorf("%+v", r)
	}
}

// TestAbuse24_Messages sends messages that end the connection, each with its code.
func TestAbuse24_Messages(t *testing.T) {
	w := newWorld(t, nil)
	big := strings.Repeat("a", protocol.MaxControl)
	input := func(n int) []byte {
		return frame.AppendMessage(nil, frame.Frame{
			Type: frame.Input, Channel: 1,
			Body: make([]byte, n),
		})
	}
	for name, row := range map[string]struct {
		token  string
		binary bool
		msg    string
		want   websocket.StatusCode
	}{
		"no json":  {tokenAll, false, `{`, code(fault.Malformed)},
		"array":    {tokenAll, false, `[]`, code(fault.Malformed)},
		"no utf-8": {tokenAll, false, "{\"id\":2,\"op\":\"\xff\"}", code(fault.Malformed)},
		"twice": {
			tokenAll, false, `{"id":2,"op":"session.list","op":"status"}`,
			code(fault.Malformed),
		},
		"case": {
			tokenAll, false, `{"id":2,"op":"session.list","Op":"status"}`,
			code(fault.Malformed),
		},
		"escaped": {
			tokenAll, false, `{"id":2,"op":"session.list","\u006fp":"status"}`,
			code(fault.Malformed),
		},
		"bad id": {
			tokenAll, false, `{"id":-2,"op":"session.list"}`,
			code(fault.InvalidArgument),
		},
		"large": {
			tokenAll, false, `{"id":2,"op":"session.list","params":"` + big + `"}`,
			code(fault.TooLarge),
		},
		"short frame": {tokenAll, true, "abc", code(fault.Malformed)},
		"output frame": {
			tokenAll, true,
			string(frame.AppendMessage(nil, frame.Frame{Type: frame.Stdout})),
			code(fault.Malformed),
		},
		"control frame": {
			tokenAll, true,
			string(frame.AppendMessage(nil,
				frame.Frame{Type: frame.Control, Body: []byte("{}")})), code(fault.Malformed),
		},
		"long ack": {
			tokenAll, true,
			string(frame.AppendMessage(nil,
				frame.Frame{Type: frame.Ack, Body: make([]byte, 9)})), code(fault.Malformed),
		},
		"negative ack": {
			tokenAll, true,
			string(frame.AppendMessage(nil, frame.Frame{
				Type: frame.Ack,
				Body: []byte{0x80, 0, 0, 0, 0, 0, 0, 0},
			})), code(fault.Malformed),
		},
		"flags": {
			tokenAll, true,
			string(frame.AppendMessage(nil, frame.Frame{
				Type: frame.Input, Flags: 2,
				Body: make([]byte, 8),
			})), code(fault.Malformed),
		},
		"large input": {
			tokenAll, true, string(input(8 + protocol.MaxInput + 1)),
			code(fault.TooLarge),
		},
		"viewer input": {tokenViewer, true, string(input(9)), code(fault.PermissionDenied)},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.dial(row.token).hello()
			typ := websocket.MessageText
			if row.binary {
				typ = websocket.MessageBinary
			}
			_ = c.ws.Write(context.Background(), typ, []byte(row.msg))
			if got := c.closed(); got != row.want {
				t.Errorf("closed with %d, want %d", got, row.want)
			}
		})
	}
	w.fake.await(t, "the links' end", func() bool { return w.fake.links == 0 })
}

func TestHello(t *testing.T) {
	t.Parallel() // much of the time is waiting
	short := newWorld(t, func(c *Config) { c.Times.Hello = 50 * time.Millisecond })
	if got := short.dial(tokenAll).closed(); got != code(fault.DeadlineExceeded) {
		t.Errorf("silence: %d", got)
	}
	const limit = 5 * time.Second
	w := newWorld(t, func(c *Config) { c.Times.Hello = limit })
	c := w.dial(tokenAll)
	c.text(`{"id":1,"op":"session.list"}`)
	if got := c.closed(); got != code(fault.Malformed) {
		t.Errorf("another op: %d", got)
	}
	c = w.dial(tokenAll).hello()
	<-time.After(limit + 200*time.Millisecond) // the deadline applies only to hello
	c.text(`{"id":2,"op":"session.list"}`)
	c.reply()
	w.node()
	if got := c.closed(); got != code(fault.Unavailable) {
		t.Errorf("the node went: %d", got)
	}
	c = w.dial(tokenAll)
	c.text(`{"id":1,"op":"hello"}`)
	if r := c.reply(); r.Error == nil || r.Error.Kind != fault.Unavailable {
		t.Errorf("%+v", r)
	}
	if got := c.closed(); got != code(fault.Unavailable) {
		t.Errorf("no node: %d", got)
	}
}

func TestHandshake(t *testing.T) {
	w := newWorld(t, nil)
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	head := "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + tokenAll + "\r\n"
	up := "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
	for name, row := range map[string]struct {
		text string
		kind fault.Kind
	}{
		"no upgrade": {head + key + "\r\n", fault.Malformed},
		"version": {
			head + up + key +
				"Sec-WebSocket-Version: 8\r\nSec-WebSocket-Protocol: sandgate.v1\r\n\r\n",
			fault.Malformed,
		},
		"key": {head + up +
			"Sec-WebSocket-Key: short\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sandgate.v1\r\n\r\n", fault.Malformed},
		"no subprotocol": {
			head + up + key + "Sec-WebSocket-Version: 13\r\n\r\n",
			fault.InvalidArgument,
		},
		"bad ticket": {strings.Replace(head, "Authorization: Bearer "+tokenAll+"\r\n", "", 1) +
			up + key + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sandgate.v1, ticket.abc\r\n\r\n", fault.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) { wantFault(t, w.raw(row.text), row.kind) })
	}
	// A client that does not wait for the handshake's answer is accepted.
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hello := `{"id":1,"op":"hello"}`
	_, _ = io.WriteString(c, head+up+key+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sandgate.v1\r\n\r\n"+
		string(masked(0x81, []byte(hello))))
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	br := bufio.NewReader(c)
	r, err := http.ReadResponse(br, nil)
	if err != nil || r.StatusCode != 101 ||
		r.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" ||
		r.Header.Get("Sec-WebSocket-Protocol") != protocol.Subprotocol {
		t.Fatal(r, err)
	}
	if op, p := readFrame(t, br); op != 1 || !strings.Contains(string(p), protocol.Subprotocol) {
		t.Errorf("%d %s", op, p)
	}
}

func TestAbuse23_Ticket(t *testing.T) {
	w := newWorld(t, nil)
	page := "http://" + w.addr
	r := w.do("POST", "/v1/tickets", tokenAll, strings.NewReader(`{"scopes":["sessions:read"]}`),
		func(q *http.Request) { q.Header.Set("Origin", page) })
	var ticket ticketReply
	if err := json.Unmarshal([]byte(read(t, r)), &ticket); err != nil {
		t.Fatal(err)
	}
	dial := func(origin string) (*websocket.Conn, error) {
		ws, _, err := websocket.Dial(context.Background(), "ws://"+w.addr+"/v1/ws",
			&websocket.DialOptions{
				Subprotocols: []string{protocol.Subprotocol, ticket.Protocol},
				HTTPHeader:   http.Header{"Origin": {origin}},
			})
		return ws, err
	}
	ws, err := dial(page)
	if err != nil {
		t.Fatal(err)
	}
	c := (&client{t, ws}).hello()
	if ws.Subprotocol() != protocol.Subprotocol {
		t.Errorf("subprotocol %q: a ticket must not come back", ws.Subprotocol())
	}
	c.text(`{"id":2,"op":"session.create"}`)
	if r := c.reply(); r.Error == nil || r.Error.Kind != fault.PermissionDenied {
		t.Errorf("%+v", r)
	}
	_ = ws.CloseNow()
	if _, err := dial(page); err == nil {
		t.Error("a ticket is good twice")
	}
}

func TestShutdownCloses1012(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.dial(tokenAll).hello(), w.dial(tokenAll) // a is past its hello, b is before it
	codes := make(chan websocket.StatusCode, 2)
	for _, c := range []*client{a, b} {
		go func() { codes <- c.closed() }()
	}
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if c := <-codes; c != websocket.StatusServiceRestart {
			t.Errorf("closed with %d", c)
		}
	}
}

func TestPerPrincipal(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.PerPrincipal = 2 })
	a := w.dial(tokenAll)
	w.dial(tokenAll)
	_, resp, err := websocket.Dial(context.Background(), "ws://"+w.addr+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + tokenAll}},
		})
	if err == nil || resp.StatusCode != 429 {
		t.Fatal(resp, err)
	}
	w.dial(tokenOther)
	_ = a.ws.Close(websocket.StatusNormalClosure, "")
	testenv.Eventually(t, "its end", func() bool { return w.g.Stats().Sockets == 2 })
	w.dial(tokenAll)
}

// masked returns a client's frame with the mask 1, 2, 3, 4.
func masked(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = append(b, 0x80|126, byte(n>>8), byte(n))
	default:
		b = append(b, 0x80|127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, 1, 2, 3, 4)
	for i, c := range payload {
		b = append(b, c^byte(i%4+1))
	}
	return b
}

// readFrame reads a frame from the server.
func readFrame(t testing.TB, br *bufio.Reader) (op byte, payload []byte) {
	t.Helper()
	op, payload, err := frameFrom(br)
	if err != nil {
		t.Fatal(err)
	}
	return op, payload
}

func frameFrom(br *bufio.Reader) (op byte, payload []byte, err error) {
	var h [2]byte
	if _, err = io.ReadFull(br, h[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(h[1])
	var ext [8]byte
	switch n {
	case 126:
		_, err = io.ReadFull(br, ext[6:])
		n = binary.BigEndian.Uint64(ext[:])
	case 127:
		_, err = io.ReadFull(br, ext[:])
		n = binary.BigEndian.Uint64(ext[:])
	}
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(br, payload)
	return h[0] & 0xf, payload, err
}

// upgrade opens a raw connection and sends hello.
func (w *world) upgrade() (net.Conn, *bufio.Reader) {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	fmt.Fprintf(
		c, "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sandgate.v1\r\n\r\n", tokenAll)
	br := bufio.NewReader(c)
	if r, err := http.ReadResponse(br, nil); err != nil || r.StatusCode != 101 {
		w.t.Fatal(r, err)
	}
	_, _ = c.Write(masked(0x81, []byte(`{"id":1,"op":"hello"}`)))
	readFrame(w.t, br)
	return c, br
}

// TestAbuse20_Frames breaks RFC 6455 in several ways. Each ends the connection with a protocol
// error or with our code for a large message.
func TestAbuse20_Frames(t *testing.T) {
	w := newWorld(t, nil)
	for name, row := range map[string]struct {
		sent []byte
		want []websocket.StatusCode
	}{
		"unmasked": {[]byte{0x81, 2, '{', '}'}, []websocket.StatusCode{1002}},
		"length of 2^63": {
			[]byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4},
			[]websocket.StatusCode{1002},
		},
		"length of 2^62, without a payload": {
			[]byte{0x82, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4},
			[]websocket.StatusCode{code(fault.TooLarge)},
		},
		"long text, without a payload": {
			[]byte{0x81, 0xff, 0, 0, 0, 0, 0, 0x20, 0, 1, 1, 2, 3, 4},
			[]websocket.StatusCode{code(fault.TooLarge)},
		},
		"long message in fragments": {
			append(masked(0x02, make([]byte, frame.MessageHeaderSize+8)),
				masked(0x80, make([]byte, protocol.MaxInput+1))...),
			[]websocket.StatusCode{code(fault.TooLarge)},
		},
		"rsv1":                  {masked(0xc1, []byte("{}")), []websocket.StatusCode{1002}},
		"rsv2":                  {masked(0xa1, []byte("{}")), []websocket.StatusCode{1002}},
		"rsv3":                  {masked(0x91, []byte("{}")), []websocket.StatusCode{1002}},
		"opcode 3":              {masked(0x83, nil), []websocket.StatusCode{1002}},
		"opcode 11":             {masked(0x8b, nil), []websocket.StatusCode{1002}},
		"control over 125":      {masked(0x89, make([]byte, 126)), []websocket.StatusCode{1002}},
		"fragmented control":    {masked(0x09, nil), []websocket.StatusCode{1002}},
		"continuation at first": {masked(0x80, []byte("{}")), []websocket.StatusCode{1002}},
		"text in a message": {
			append(masked(0x01, []byte("{")), masked(0x81, []byte("}"))...),
			[]websocket.StatusCode{1002},
		},
		"close of one byte": {masked(0x88, []byte{3}), []websocket.StatusCode{1002}},
		"close with 1005":   {masked(0x88, []byte{0x03, 0xed}), []websocket.StatusCode{1002}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, br := w.upgrade()
			_, _ = c.Write(row.sent)
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
			op, p, err := frameFrom(br)
			if err != nil || op != 8 || len(p) < 2 {
				t.Fatalf("got frame %d %q, %v; want a close", op, p, err)
			}
			if got := websocket.StatusCode(binary.BigEndian.Uint16(p)); !slices.Contains(row.want,
				got) {
				t.Errorf("closed with %d, want %d", got, row.want)
			}
			_ = c.Close()
		})
	}
}

func TestAbuse20_Fragments(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Times.Message = 300 * time.Millisecond })
	c, br := w.upgrade()
	// A fragmented message counts as one message.
	_, _ = c.Write(slices.Concat(masked(0x01, []byte(`{"id":2,"op":`)), masked(0x89, []byte("hi")),
		masked(0x00, []byte(`"session.list"`)), masked(0x80, []byte(`}`))))
	if op, p := readFrame(t, br); op != 10 || string(p) != "hi" {
		t.Errorf("no pong in between: %d %q", op, p)
	}
	if _, p := readFrame(t, br); !strings.Contains(string(p), `"id":2`) {
		t.Errorf("%s", p)
	}
	// A message that never ends is rejected, however many fragments it has.
	stop := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = c.Write(masked(0x01, []byte("{")))
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				_, _ = c.Write(masked(0x00, nil))
			}
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	op, p := readFrame(t, br)
	if op != 8 || websocket.StatusCode(binary.BigEndian.Uint16(p)) != code(fault.DeadlineExceeded) {
		t.Errorf("%d %q", op, p)
	}
	close(stop)
	<-sent
}

func TestAbuse20_PingFlood(t *testing.T) {
	w := newWorld(t, nil)
	c, br := w.upgrade()
	const n = 20_000
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		flood := []byte{}
		for range n {
			flood = append(flood, masked(0x89, []byte("x"))...)
		}
		_, _ = c.Write(flood)
		_, _ = c.Write(masked(0x81, []byte(`{"id":7,"op":"session.list"}`)))
	}()
	pongs := 0
	for {
		op, p := readFrame(t, br)
		if op == 10 {
			pongs++
			continue
		}
		if !strings.Contains(string(p), `"id":7`) {
			t.Errorf("%d %s", op, p)
		}
		break
	}
	<-sent
	if pongs > n/10 || w.g.Stats().PingsIgnored == 0 {
		t.Errorf("%d pings of %d were answered", pongs, n)
	}
}

// TestAbuse19_NeverReads has a node that ignores credit and a client that reads nothing. Memory
// stays bounded, and a client that resumes reading in time learns why it was disconnected.
func TestAbuse19_NeverReads(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Times.Write = time.Second })
	c, br := w.upgrade()
	_, _ = c.Write(masked(0x81,
		[]byte(`{"id":2,"op":"execute","ch":1,"params":{"key":"k","code":"flood-unchecked"}}`)))
	testenv.Eventually(t, "a client that counts as slow", w.slow)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapInuse > 64<<20 {
		t.Errorf("%d MiB are in use", m.HeapInuse>>20)
	}
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	for {
		op, p, err := frameFrom(br)
		if err != nil {
			t.Fatalf("cut off without a word: %v", err)
		}
		if op == 8 {
			if got := websocket.StatusCode(binary.BigEndian.Uint16(p)); got != code(fault.Slow) {
				t.Errorf("closed with %d", got)
			}
			break
		}
	}
	_ = c.Close()
	w.fake.await(t, "the link's end", func() bool { return w.fake.links == 0 })
	// A client that stops reading after one message and never resumes is also cut off.
	c, br = w.upgrade()
	_, _ = c.Write(masked(0x81,
		[]byte(`{"id":2,"op":"execute","ch":1,"params":{"key":"k","code":"flood-unchecked"}}`)))
	readFrame(t, br)
	w.fake.await(t, "the link's end", func() bool { return w.fake.links == 0 })
}

// slow reports whether a client that reads nothing was detected.
func (w *world) slow() bool { return w.g.Stats().Slow > 0 }

// TestAbuse19_HalfOpen: a client that answers pings stays connected and is pinged again. A client
// that does not is cut off after one ping.
func TestAbuse19_HalfOpen(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Times.Ping = 20 * time.Millisecond })
	asked := make(chan struct{}, 100)
	ws, _, err := websocket.Dial(context.Background(), "ws://"+w.addr+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + tokenAll}},
			OnPingReceived: func(context.Context, []byte) bool {
				select {
				case asked <- struct{}{}:
				default:
				}
				return true
			},
		})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	(&client{t, ws}).hello()
	left := make(chan error, 1)
	go func() { // answers pings
		_, _, err := ws.Read(context.Background())
		left <- err
	}()
	for range 4 { // each ping but the first follows an answer
		select {
		case <-asked:
		case err := <-left:
			t.Fatalf("a client that answers pings was cut off: %v", err)
		case <-time.After(2 * time.Minute):
			t.Fatal("no ping came")
		}
	}

	w = newWorld(t, func(c *Config) {
		c.Times.Ping, c.Times.Pong = 20*time.Millisecond,
			time.Second
	})
	c, br := w.upgrade()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	pings := 0
	for {
		op, p := readFrame(t, br)
		if op == 9 {
			pings++
			continue
		}
		if op != 8 || websocket.StatusCode(binary.BigEndian.Uint16(p)) != code(fault.Slow) {
			t.Errorf("%d %q", op, p)
		}
		break
	}
	_ = c.Close()
	if pings != 1 {
		t.Errorf("%d pings", pings)
	}
	testenv.Eventually(t, "its end", func() bool { return w.g.Stats().Sockets == 0 })
}
