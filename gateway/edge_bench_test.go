package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// BenchmarkREST measures a small request of the native API on one connection.
func BenchmarkREST(b *testing.B) {
	w := nearWorld(b)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequest("GET", "http://"+w.addr+"/v1/sessions", nil)
		req.Header.Set("Authorization", "Bearer "+tokenAll)
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// BenchmarkRESTRaw is the same with a client that costs little time.
func BenchmarkRESTRaw(b *testing.B) {
	w := nearWorld(b)
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	head := []byte("GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
		tokenAll + "\r\n\r\n")
	br := bufio.NewReader(c)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(head); err != nil {
			b.Fatal(err)
		}
		length := 0
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			if _, err := fmt.Sscanf(strings.ToLower(line), "content-length: %d",
				&length); err != nil && line == "\r\n" {
				break
			}
		}
		if _, err := br.Discard(length); err != nil {
			b.Fatal(err)
		}
	}
}

const streamed = 64 << 20

// BenchmarkUpload streams 64 MiB to the node.
func BenchmarkUpload(b *testing.B) {
	w := newWorld(b, nil)
	w.session()
	zeros := make([]byte, streamed)
	b.SetBytes(streamed)
	for b.Loop() {
		r := w.do("PUT", "/v1/sessions/fixed/files/sink", tokenAll,
			strings.NewReader(string(zeros)), nil)
		if r.StatusCode != 200 {
			b.Fatal(r.StatusCode)
		}
		_ = r.Body.Close()
	}
}

// BenchmarkDownload streams 64 MiB from the node.
func BenchmarkDownload(b *testing.B) {
	w := newWorld(b, nil)
	w.session()
	b.SetBytes(streamed)
	for b.Loop() {
		r := w.do("GET", fmt.Sprintf("/v1/sessions/fixed/files/source:%d", streamed), tokenAll, nil,
			nil)
		if n, err := io.Copy(io.Discard, r.Body); n != streamed || err != nil {
			b.Fatal(n, err)
		}
		_ = r.Body.Close()
	}
}

// TestIdleHTTPMemory measures the memory of connections that are open between two requests.
func TestIdleHTTPMemory(t *testing.T) {
	const n = 500
	w := nearWorld(t)
	measure := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	before := measure()
	for range n {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		fmt.Fprintf(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		buf := make([]byte, 4096)
		if m, err := c.Read(buf); err != nil ||
			!strings.HasPrefix(string(buf[:m]), "HTTP/1.1 200") {
			t.Fatal(err)
		}
	}
	per := int64(measure()-before) / n
	t.Logf("%d idle HTTP connections: %d bytes each, the test's own end included", n, per)
	if limit := int64(20 << 10); !raced && per > limit {
		t.Errorf("over %d bytes each", limit)
	}
}
