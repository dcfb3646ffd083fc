package gateway

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// These are the cases of the Autobahn test suite; the names have its numbers. Our endpoint is not
// an echo server: it echoes an Input frame as a Records frame, or a request as its reply.

// conversation is the client's writes and the answers that it expects.
type conversation struct {
	name string
	sent [][]byte
	want []string
}

// once returns the bytes as a single write. chopped returns the same bytes in writes of n.
func once(parts ...[]byte) [][]byte { return [][]byte{slices.Concat(parts...)} }

func chopped(n int, parts ...[]byte) [][]byte {
	return slices.Collect(slices.Chunk(slices.Concat(parts...), n))
}

// first bytes of frames: FIN and opcode, or a part of a message.
const (
	text, binaryFrame, cont    = 0x81, 0x82, 0x80
	closing, ping, pong        = 0x88, 0x89, 0x8a
	textPart, binaryPart, more = 0x01, 0x02, 0x00
)

// inputOf returns the message with n bytes of input.
func inputOf(n int) []byte {
	return frame.AppendMessage(nil, frame.Frame{
		Type: frame.Input, Channel: 9,
		Body: make([]byte, 8+n),
	})
}

// requestOf returns a request whose text has about n bytes.
func requestOf(n int, filler string) []byte {
	return fmt.Appendf(nil, `{"id":7,"op":"session.list","params":{"x":"%s"}}`,
		strings.Repeat(filler, max(n-52, 0)/len(filler)))
}

func closeOf(code int, reason string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
}

// fragments cuts a message into frames of n bytes, with a ping after each if
// pings is set.
func fragments(first byte, message []byte, n int, pings bool) (all []byte, pongs []string) {
	parts := slices.Collect(slices.Chunk(message, n))
	for i, p := range parts {
		op := byte(more)
		if i == 0 {
			op = first & 0x7f
		}
		if i == len(parts)-1 {
			op |= 0x80
		}
		all = append(all, masked(op, p)...)
		if pings && i < len(parts)-1 {
			all = append(all, masked(ping, []byte{'a' + byte(i)})...)
			pongs = append(pongs, "pong "+string(rune('a'+i)))
		}
	}
	return all, pongs
}

func rfc6455() []conversation {
	var all []conversation
	add := func(name string, sent [][]byte,
		want ...string,
	) {
		all = append(all, conversation{name, sent, want})
	}
	const bad, malformed, reply = "close 1002", "close 3501", "reply"

	for i, n := range []int{0, 125, 126, 127, 128, 65535, 65536} {
		add(fmt.Sprintf("1.1.%d text of about %d", i+1, n), once(masked(text, requestOf(n, "x"))),
			reply)
		add(fmt.Sprintf("1.2.%d binary of %d", i+1, n), once(masked(binaryFrame, inputOf(n))),
			fmt.Sprintf("echo %d", n))
	}
	add("1.1.8 text chopped by 997", chopped(997, masked(text, requestOf(65536, "x"))), reply)
	add("1.2.8 binary chopped by 997", chopped(997, masked(binaryFrame, inputOf(65536))),
		"echo 65536")

	add("2.1 ping without payload", once(masked(ping, nil)), "pong ")
	add("2.2 ping", once(masked(ping, []byte("Hello"))), "pong Hello")
	add("2.3 ping with binary payload", once(masked(ping, []byte{0, 0xff, 0xfe, 0xfd})),
		"pong \x00\xff\xfe\xfd")
	add("2.4 ping of 125", once(masked(ping, []byte(strings.Repeat("p", 125)))), "pong "+
		strings.Repeat("p", 125))
	add("2.5 ping of 126", once(masked(ping, make([]byte, 126))), bad)
	add("2.6 ping by the byte", chopped(1, masked(ping, []byte("Hello"))), "pong Hello")
	add("2.7 pong that nobody asked for", once(masked(pong, nil), masked(ping, nil)), "pong ")
	add("2.8 the same with payload", once(masked(pong, []byte("u")), masked(ping, nil)), "pong ")
	var pings []byte
	var pongs []string
	for i := range 10 {
		pings, pongs = append(pings, masked(ping, []byte{'0' + byte(i)})...), append(pongs,
			fmt.Sprint("pong ", i))
	}
	add("2.10 ten pings", once(pings), pongs...)
	add("2.11 ten pings by the byte", chopped(1, pings), pongs...)

	for rsv := byte(1); rsv < 8; rsv++ {
		add(fmt.Sprintf("3.%d reserved bits %03b of text", rsv, rsv),
			once(masked(text|rsv<<4, []byte("{}"))), bad)
		add(fmt.Sprintf("3.%d of binary", rsv), once(masked(binaryFrame|rsv<<4, inputOf(1))), bad)
		add(fmt.Sprintf("3.%d of a ping", rsv), once(masked(ping|rsv<<4, nil)), bad)
		add(fmt.Sprintf("3.%d of a close", rsv), once(masked(closing|rsv<<4, closeOf(1000, ""))),
			bad)
		add(fmt.Sprintf("3.%d behind a good message", rsv),
			once(masked(binaryFrame, inputOf(3)), masked(text|rsv<<4, nil)), "echo 3?", bad)
	}

	for _, op := range []byte{3, 4, 5, 6, 7, 11, 12, 13, 14, 15} {
		add(fmt.Sprintf("4 opcode %d", op), once(masked(0x80|op, nil)), bad)
		add(fmt.Sprintf("4 opcode %d with payload", op), once(masked(0x80|op, []byte("x"))), bad)
		add(fmt.Sprintf("4 opcode %d behind a message", op), once(masked(binaryFrame, inputOf(3)),
			masked(0x80|op, nil), masked(ping, nil)), "echo 3?", bad)
	}

	two, _ := fragments(text, requestOf(90, "x"), 50, false)
	add("5.1 ping in two fragments", once(masked(0x09, nil), masked(cont, nil)), bad)
	add("5.2 pong in two fragments", once(masked(0x0a, nil), masked(cont, nil)), bad)
	add("5.3 text in two fragments", once(two), reply)
	add("5.4 each in a write", chopped(len(two)/2, two), reply)
	add("5.5 by the byte", chopped(1, two), reply)
	three, between := fragments(text, requestOf(100, "x"), 40, true)
	add("5.6 pings in between", once(three), append(between, reply)...)
	add("5.8 pings in between, by the byte", chopped(1, three), append(between, reply)...)
	add("5.9 continuation of nothing", once(masked(cont, []byte("x")), masked(text, []byte("{}"))),
		bad)
	add("5.12 part of a continuation of nothing",
		once(masked(more, []byte("x")), masked(text, []byte("{}"))), bad)
	add("5.15 continuation behind the end",
		once(two, masked(more, []byte("x")), masked(text, []byte("{}"))), "reply?", bad)
	add("5.16 continuation of nothing, again",
		once(masked(more, []byte("x")), masked(textPart, []byte("x")), masked(cont, nil)), bad)
	add("5.18 text within a message",
		once(masked(textPart, []byte("{")), masked(text, []byte("}"))), bad)
	add("5.18 binary within a text",
		once(masked(textPart, []byte("{")), masked(binaryFrame, []byte("}"))), bad)
	many, between := fragments(binaryFrame, inputOf(400), 16, true)
	add("5.19 many fragments with pings", once(many), append(between, "echo 400")...)
	empty := slices.Concat(masked(binaryPart, nil), masked(more, nil), masked(more, inputOf(2)),
		masked(more, nil), masked(cont, nil))
	add("5.20 empty fragments", once(empty), "echo 2")

	greek := []byte("\u03ba\u1f79\u03c3\u03bc\u03b5\U0001f600")
	add("6.1 empty text", once(masked(text, nil)), malformed)
	add("6.2 UTF-8", once(masked(text, requestOf(200, string(greek)))), reply)
	whole := requestOf(200, string(greek))
	split, _ := fragments(text, whole, 1, false)
	add("6.2 UTF-8 in fragments of a byte", once(split), reply)
	for i, s := range []string{
		"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", "\xf4\x90\x80\x80",
		"\x80", "\xbf", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
		"\xc1\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xfe", "\xff", "\xf8\x88\x80\x80\x80",
		"\xfc\x84\x80\x80\x80\x80", "\xe2\x82", "\xf0\x9f\x98",
	} {
		add(fmt.Sprintf("6.3 bad UTF-8, number %d", i),
			once(masked(text, []byte(`{"id":7,"op":"`+s+`"}`))), malformed)
	}

	end := masked(closing, closeOf(1000, ""))
	add("7.1.1 message and close", once(masked(binaryFrame, inputOf(4)), end), "echo 4?",
		"close 1000")
	add("7.1.2 two closes", once(end, end), "close 1000")
	add("7.1.3 ping behind a close", once(end, masked(ping, nil)), "close 1000")
	add("7.1.4 text behind a close", once(end, masked(text, requestOf(60, "x"))), "close 1000")
	add("7.1.5 close within a message", once(masked(textPart, []byte("{")), end,
		masked(cont, []byte("}"))), "close 1000")
	add("7.1.6 much, and close", once(masked(binaryFrame, inputOf(256<<10)), end), "echo 262144?",
		"close 1000")
	add("7.3.1 close without a code", once(masked(closing, nil)), "close")
	add("7.3.2 close of a byte", once(masked(closing, []byte("a"))), bad)
	add("7.3.4 close with a reason", once(masked(closing, closeOf(1000, "Hello"))), "close 1000")
	add("7.3.5 close of 125", once(masked(closing, closeOf(1000, strings.Repeat("*", 123)))),
		"close 1000")
	add("7.3.6 close of 126", once(masked(closing, closeOf(1000, strings.Repeat("*", 124)))), bad)
	for _, code := range []int{
		1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999,
		4000, 4999,
	} {
		add(fmt.Sprintf("7.7 close with %d", code), once(masked(closing, closeOf(code, ""))),
			fmt.Sprint("close ", code))
	}
	for _, code := range []int{0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535} {
		add(fmt.Sprintf("7.9 close with %d", code), once(masked(closing, closeOf(code, ""))), bad)
	}

	for _, n := range []int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10} {
		parts, _ := fragments(binaryFrame, inputOf(256<<10), n, false)
		add(fmt.Sprintf("9.4 the most input in fragments of %d", n), once(parts), "echo 262144")
	}
	add("10.1 fragments of 1300",
		once(func() []byte {
			b, _ := fragments(text, requestOf(65536, "x"), 1300,
				false)
			return b
		}()), reply)

	length := func(first byte, n uint64) []byte {
		return append(binary.BigEndian.AppendUint64([]byte{first, 0xff}, n), 1, 2, 3, 4)
	}
	add("5.2 of the RFC: a length of 2^63", once(length(binaryFrame, 1<<63)), bad)
	add("5.2 of the RFC: a length of 2^64-1", once(length(text, 1<<64-1)), bad)
	add("5.1 of the RFC: text that is not masked", once([]byte{text, 2, '{', '}'}), bad)
	add("5.1 of the RFC: a ping that is not masked", once([]byte{ping, 0}), bad)
	return all
}

// read reads from the server until it has the wanted answers, or too many.
func (k conversation) read(c net.Conn, br *bufio.Reader) (got []string) {
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	for len(got) < len(k.want) {
		op, p, err := frameFrom(br)
		switch {
		case err != nil:
			return append(got, err.Error())
		case op == 10:
			got = append(got, "pong "+string(p))
		case op == 1:
			if !strings.Contains(string(p), `"id":7`) {
				return append(got, string(p))
			}
			got = append(got, "reply")
		case op == 8 && len(p) == 0:
			got = append(got, "close")
		case op == 8 && len(p) > 1:
			got = append(got, fmt.Sprint("close ", binary.BigEndian.Uint16(p)))
		case op == 2:
			f, err := frame.ParseMessage(p)
			if err != nil || len(f.Body) < 8 {
				return append(got, "a message that is no frame")
			}
			rec, _, err := frame.ParseRecord(f.Body[8:])
			if err != nil {
				return append(got, err.Error())
			}
			got = append(got, fmt.Sprint("echo ", len(rec.Payload)))
		default:
			return append(got, fmt.Sprintf("a frame with opcode %d", op))
		}
		// An answer that a close frame overtakes may arrive or not.
		if n := len(got) - 1; strings.HasSuffix(k.want[n], "?") && got[n]+"?" != k.want[n] {
			got = append(got[:n], k.want[n], got[n])
		} else if strings.HasSuffix(k.want[n], "?") {
			got[n] = k.want[n]
		}
	}
	return got
}

// TestRFC6455 checks the endpoint against the RFC, case by case. After each case the server still
// serves other clients.
func TestRFC6455(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.PerPrincipal = 1000 })
	for _, k := range rfc6455() {
		t.Run(strings.ReplaceAll(k.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c, br := w.upgrade()
			go func() {
				for _, p := range k.sent {
					if _, err := c.Write(p); err != nil {
						return // the server has stopped reading
					}
				}
			}()
			if got := k.read(c, br); !slices.Equal(got, k.want) {
				t.Errorf("got %.200q, want %.200q", got, k.want)
			}
			_ = c.Close()
		})
	}
	t.Run("12 compression is not agreed on", func(t *testing.T) {
		head := w.handshake(t,
			"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n")
		if strings.Contains(strings.ToLower(head), "sec-websocket-extensions") {
			t.Errorf("the server agreed to an extension:\n%s", head)
		}
	})
	if want := "3501"; fmt.Sprint(fault.Malformed.Row().Close) != want {
		t.Errorf("malformed has another close code than the %s of this table", want)
	}
}

// TestCutMessage: the server drops a message whose connection ends inside it, wherever that is. It
// does not take the part that came for the whole.
func TestCutMessage(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.PerPrincipal = 1000 })
	frame := masked(binaryFrame, inputOf(200_000))
	header := len(frame) - len(inputOf(200_000))
	before := 0
	w.fake.change(func() { before = w.fake.links })
	for came := 1 << 10; came < 128<<10; came += 1 << 10 {
		c, _ := w.upgrade()
		if _, err := c.Write(frame[:header+came]); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		w.fake.await(t, "the end of the link", func() bool { return w.fake.links == before })
		w.fake.change(func() {
			if w.fake.fed > 0 {
				t.Errorf("the node got input of which %d bytes came", came)
			}
			w.fake.fed = 0
		})
		_ = c.Close()
	}
}

// handshake returns the head of the server's answer to a handshake with more headers.
func (w *world) handshake(t *testing.T, headers string) string {
	t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(
		c, "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sandgate.v1\r\n%s\r\n", tokenAll, headers)
	br := bufio.NewReader(c)
	var head strings.Builder
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			return head.String()
		}
		head.WriteString(line)
	}
}
