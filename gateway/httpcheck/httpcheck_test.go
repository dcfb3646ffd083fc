package httpcheck

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestChecker checks headers that two parsers may read differently. The check gets each text
// at once and byte by byte.
func TestChecker(t *testing.T) {
	const get = "GET /a HTTP/1.1\r\nHost: h\r\n"
	for name, c := range map[string]struct {
		text string
		good int // number of bytes before the rejected line
		bad  string
	}{
		"plain":              {get + "\r\n", 0, ""},
		"two requests":       {get + "\r\n" + get + "\r\n", 0, ""},
		"empty lines before": {"\r\n\r\n" + get + "\r\n", 0, ""},
		"long lines": {get + "X-" + strings.Repeat("long", 40) + ": " +
			strings.Repeat("v", 999) + "\r\n\r\n", 0, ""},
		"body": {get + "Content-Length: 9\r\n\r\nno header" + get + "\r\n", 0, ""},
		"chunks": {get +
			"Transfer-Encoding: chunked\r\n\r\n9;x=y\r\nno header\r\n0\r\nTrailer: t\r\n\r\n" +
			get + "\r\n", 0, ""},
		"upgrade": {get +
			"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n no HTTP\r\nany more\n", 0, ""},
		"folded":    {get + " x\r\n\r\n", len(get), "folded"},
		"no colon":  {get + "nothing\r\n\r\n", len(get), "no colon"},
		"two hosts": {get + "hOST: h\r\n\r\n", len(get), "repeated"},
		"two lengths": {get + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", len(get) +
			19, "repeated"},
		"both": {
			get + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
			len(get) + 19, "not both",
		},
		"odd encoding": {
			get + "Transfer-Encoding: gzip, chunked\r\n\r\n", len(get),
			"only transfer encoding",
		},
		"long encoding": {get + "Transfer-Encoding: " + strings.Repeat(" ", 99) +
			"chunked\r\n\r\n", len(get), "too long"},
		"old with chunks": {
			"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 16,
			"only transfer encoding",
		},
		"in a second request": {get + "\r\n" + get + "\tx\r\n\r\n", 2*len(get) + 2, "folded"},
		"behind a body": {
			get + "Content-Length: 1\r\n\r\nx" + get + " x\r\n\r\n",
			2*len(get) + 22, "folded",
		},
		"behind chunks": {get + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get +
			" x\r\n\r\n", 2*len(get) + 35, "folded"},
		"origin twice, spaced": {get + "Origin: a\r\norigin:b\r\n\r\n", len(get) + 11, "repeated"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, len(c.text)} {
				var s Checker
				good, err := checkIn(&s, []byte(c.text), size)
				switch {
				case c.bad == "" && (err != nil || good != len(c.text)):
					t.Errorf("in parts of %d: %d bytes of %d, %v", size, good, len(c.text), err)
				case c.bad != "" && (!fault.Is(err, fault.Malformed) ||
					!strings.Contains(err.Error(), c.bad)):
					t.Errorf("in parts of %d: %v, want %q", size, err, c.bad)
				case c.bad != "" && size == len(c.text) && good != c.good:
					t.Errorf("%d bytes are good, want %d", good, c.good)
				}
			}
		})
	}
}

// checkIn passes b to the check in parts of at most size bytes.
func checkIn(s *Checker, b []byte, size int) (good int, err error) {
	for len(b) > 0 && err == nil {
		var n int
		n, err = s.Scan(b[:min(size, len(b))])
		good += n
		b = b[min(size, len(b)):]
	}
	return good, err
}

// FuzzChecker compares with net/http where a request ends.
func FuzzChecker(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\nHost: a\nContent-Length: 3\n\nabc",
		"\n:\r\n \t",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\nGET",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var whole, parts Checker
		n, err := whole.Scan(b)
		if m, perr := checkIn(&parts, b, 1); (err == nil) != (perr == nil) || err == nil && m != n {
			t.Fatalf("at once %d, %v; byte by byte %d, %v", n, err, m, perr)
		}
		in := bufio.NewReader(bytes.NewReader(b))
		r, herr := http.ReadRequest(in)
		if herr != nil {
			return
		}
		if _, herr = io.Copy(io.Discard, r.Body); herr != nil {
			return
		}
		end := len(b) - in.Buffered()
		if end <= 4096-16 { // the reader's buffer holds all of it
			var s Checker
			if _, err := s.Scan(b[:end]); err != nil || s.where == unchecked {
				return
			}
			if !s.Idle() {
				t.Fatalf("net/http read a request of %d bytes, the check expects more: %+v", end, s)
			}
			if _, err := new(Checker).Scan(b[:end-1]); err != nil {
				t.Fatal(err)
			}
		}
	})
}
