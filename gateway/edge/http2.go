package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// This file ends TLS, and gives the requests of HTTP/2 the bounds that package httpcheck, conn and
// body give those of HTTP/1.

// The bounds of a connection that speaks HTTP/2.
const (
	// maxStreams is the largest number of concurrent requests of one connection.
	maxStreams = 512
	// streamWrite is the most that is written at once, so that a client makes progress or is slow.
	streamWrite = 32 << 10
	// streamWindow is how much of a body a client may send before a handler reads it, and
	// connWindow the same of all bodies of one connection.
	streamWindow, connWindow = 256 << 10, 1 << 20
	// silence is how long a client may send nothing before the gateway sends a ping, and pingReply
	// how long its answer may take.
	silence, pingReply = 30 * time.Second, 15 * time.Second
)

// protocolHTTP2 and protocolHTTP1 name the protocols in a TLS handshake.
const protocolHTTP2, protocolHTTP1 = "h2", "http/1.1"

// HTTP2Limits returns the bounds of connections that speak HTTP/2.
func HTTP2Limits() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          maxStreams,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: connWindow,
		SendPingTimeout:               silence,
		PingTimeout:                   pingReply,
	}
}

// TLSConfig returns the configuration of handshakes with the certificates. The one for the name that
// the client asks for is used, and the first one for other names.
func TLSConfig(all []tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: all,
		NextProtos: []string{protocolHTTP2, protocolHTTP1},
	}
}

// acceptTLS accepts connections until the listener is closed, and performs their handshakes.
func (l *Listener) acceptTLS() {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return l.cfg.TLS(), nil
		},
	}
	for {
		t, err := l.accept()
		if err != nil {
			select {
			case l.failed <- err: // net/http waits before the next call, or ends
				continue
			case <-l.done:
				return
			}
		}
		go func() {
			c := l.shake(t, config)
			if c == nil {
				return
			}
			select {
			case l.ready <- c:
			case <-l.done:
				_ = c.Close()
			}
		}()
	}
}

// shake performs the handshake of a connection. It returns nil after it has closed it.
func (l *Listener) shake(t *transport, config *tls.Config) net.Conn {
	ctx, cancel := context.WithTimeout(l.cfg.Leaving, l.cfg.Header)
	defer cancel()
	c := tls.Server(t, config)
	if err := c.HandshakeContext(ctx); err != nil {
		l.cfg.HandshakeFailed()
		if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && plain.Conn != nil &&
			speaksHTTP(plain.RecordHeader) {
			_ = t.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = t.Write(rawError(fault.New(fault.Malformed, "gateway.http",
				"this port needs TLS: use https://"))) // the connection ends in any case
		}
		_ = t.Close()
		return nil
	}
	if c.ConnectionState().NegotiatedProtocol == protocolHTTP2 {
		t.spoke.Store(true)
		return c
	}
	return &Conn{Conn: c, below: t}
}

// speaksHTTP reports whether the first bytes of a connection are those of a request without TLS.
func speaksHTTP(start [5]byte) bool {
	switch string(start[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
}

// IsHTTP2 reports whether a request is a stream of HTTP/2.
func IsHTTP2(r *http.Request) bool { return r.ProtoMajor == 2 }

// StreamWriter is the http.ResponseWriter of a request of HTTP/2. It ends the response of a client
// that reads nothing.
type StreamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	slow    func()
}

// NewStreamWriter returns a StreamWriter. It calls slow when a client has read nothing for stall.
func NewStreamWriter(w http.ResponseWriter, stall time.Duration, slow func()) *StreamWriter {
	return &StreamWriter{
		ResponseWriter: w, control: http.NewResponseController(w), stall: stall, slow: slow,
	}
}

func (w *StreamWriter) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+streamWrite)]
		stop := w.limit()
		var written int
		written, err = w.ResponseWriter.Write(part)
		stop()
		if n += written; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Flush sends the bytes written so far.
func (w *StreamWriter) Flush() { _ = w.FlushError() } // the next write fails as well

// FlushError implements the interface of http.ResponseController.
func (w *StreamWriter) FlushError() error {
	defer w.limit()()
	return w.control.Flush()
}

// limit resets the stream unless stop is called within the limit.
func (w *StreamWriter) limit() (stop func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(w.stall, func() {
		defer close(done)
		w.slow()
		_ = w.control.SetWriteDeadline(time.Unix(1, 0)) // the write returns an error
	})
	return func() {
		if !timer.Stop() {
			<-done // the writer belongs to this request only until the handler returns
		}
	}
}

// Finish bounds the time in which net/http sends the rest of the response after the handler.
func (w *StreamWriter) Finish() { _ = w.control.SetWriteDeadline(time.Now().Add(w.stall)) }

// Unwrap implements the interface of http.ResponseController.
func (w *StreamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// StreamDeadline sets the deadline of a body of HTTP/2. It keeps a deadline that differs by less
// than a second.
func StreamDeadline(w http.ResponseWriter) func(time.Time) error {
	control := http.NewResponseController(w)
	var last time.Time
	return func(end time.Time) error {
		if d := end.Sub(last); d > -time.Second && d < time.Second {
			return nil
		}
		last = end
		return control.SetReadDeadline(end)
	}
}
