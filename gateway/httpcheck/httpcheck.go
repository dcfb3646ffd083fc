// Package httpcheck reads the bytes of HTTP requests before net/http does, and finds headers that
// two parsers may read differently.
package httpcheck

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Checker reads the bytes of the requests of one connection and finds headers that two HTTP
// parsers may read differently: folded lines, lines without a colon, a repeated header that must be
// single, a body with two lengths. net/http accepts some of these, as RFC 9112 allows, and does not
// keep their original form. A proxy in front of the gateway may read them differently, and then a
// request could hide in the body of another.
//
// It stores only the beginning of a line, and does not delay bytes. It agrees with net/http about
// the end of a body. If it did not, net/http would reject the bytes that follow. The zero value
// expects a request.
type Checker struct {
	where checkState
	// left is the length of the rest of a body or a chunk, in bytes.
	left int64
	// line is the beginning of the present line, and size its length.
	line [48]byte
	size int
	// tail is the end of the request line, which names the version.
	tail [len("HTTP/1.0\r")]byte
	// The state of the present header.
	seen    [len(singleHeaders)]bool
	length  int64
	chunked bool
	old     bool // HTTP/1.0 or older
	upgrade bool
}

type checkState uint8

const (
	atRequestLine checkState = iota
	inHeader
	inBody
	atChunkSize
	inChunk
	inTrailer
	// unchecked is the state of a connection that may stop speaking HTTP.
	unchecked
)

// singleHeaders may not be repeated.
var singleHeaders = [...]string{
	"host", "origin", "authorization", "content-length", "transfer-encoding",
	"sec-websocket-key", "sec-websocket-version",
}

// The indexes in singleHeaders.
const (
	contentLength    = 3
	transferEncoding = 4
)

// Idle reports whether no byte of a request has been read.
func (s *Checker) Idle() bool { return s.where == atRequestLine && s.size == 0 }

// Scan reads the bytes of p. It returns the number of bytes before the first rejected line, and the
// reason for the rejection.
func (s *Checker) Scan(p []byte) (n int, err error) {
	for n < len(p) {
		switch s.where {
		case unchecked:
			return len(p), nil
		case inBody, inChunk:
			part := min(s.left, int64(len(p)-n))
			s.left -= part
			n += int(part)
			if s.left > 0 {
				return n, nil
			}
			if s.where == inBody {
				*s = Checker{}
			} else {
				s.where = atChunkSize
			}
		default:
			i := bytes.IndexByte(p[n:], '\n')
			if i < 0 {
				s.add(p[n:])
				return len(p), nil
			}
			s.add(p[n : n+i])
			if err := s.endLine(); err != nil {
				return n, err
			}
			n += i + 1
		}
	}
	return n, nil
}

// Stop ends the check: the connection speaks another protocol from now on.
func (s *Checker) Stop() { s.where = unchecked }

// Stopped reports whether the connection may have stopped speaking HTTP.
func (s *Checker) Stopped() bool { return s.where == unchecked }

func (s *Checker) add(p []byte) {
	if s.size < len(s.line) {
		copy(s.line[s.size:], p)
	}
	s.size += len(p)
	if s.where == atRequestLine {
		for _, b := range p[max(0, len(p)-len(s.tail)):] {
			copy(s.tail[:], s.tail[1:])
			s.tail[len(s.tail)-1] = b
		}
	}
}

// endLine processes a complete line.
func (s *Checker) endLine() error {
	line := bytes.TrimRight(s.line[:min(s.size, len(s.line))], "\r")
	size := s.size
	s.size = 0
	switch s.where {
	case atRequestLine:
		if len(line) > 0 { // RFC 9112 allows empty lines before a request
			s.where = inHeader
			s.old = !bytes.Contains(s.tail[:], []byte("HTTP/1.")) ||
				bytes.Contains(s.tail[:], []byte("HTTP/1.0"))
		}
	case inHeader:
		if len(line) > 0 {
			return s.header(line, size)
		}
		s.endHeader()
	case atChunkSize:
		text, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 16, 62)
		switch {
		case err != nil:
			s.where = unchecked // net/http refuses it, and the connection ends
		case n == 0:
			s.where = inTrailer
		default:
			s.where, s.left = inChunk, int64(n)+2 // the chunk ends with CRLF
		}
	case inTrailer:
		if len(line) == 0 {
			*s = Checker{}
		}
	}
	return nil
}

// header processes a line of size bytes. line is its beginning.
func (s *Checker) header(line []byte, size int) error {
	const op = "gateway.header"
	if line[0] == ' ' || line[0] == '\t' {
		return fault.New(fault.Malformed, op, "a header line is folded")
	}
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		if size > len(s.line) {
			return nil // a long name whose colon is beyond the kept part
		}
		return fault.New(fault.Malformed, op, "a header line has no colon")
	}
	value = bytes.TrimSpace(value)
	if bytes.EqualFold(name, []byte("upgrade")) {
		s.upgrade = true
	}
	for i, single := range singleHeaders {
		if !strings.EqualFold(string(name), single) {
			continue
		}
		if s.seen[i] {
			return fault.New(fault.Malformed, op, "the header %s is repeated", single)
		}
		s.seen[i] = true
		if (i == contentLength || i == transferEncoding) && size > len(s.line) {
			return fault.New(fault.Malformed, op, "the header %s is too long", single)
		}
		switch i {
		case contentLength:
			s.length, _ = strconv.ParseInt(string(value), 10, 64) // net/http rejects other forms
		case transferEncoding:
			if s.chunked = strings.EqualFold(string(value), "chunked"); !s.chunked || s.old {
				return fault.New(fault.Malformed, op, "the only transfer encoding is chunked")
			}
		}
	}
	if s.seen[contentLength] && s.seen[transferEncoding] {
		return fault.New(fault.Malformed, op, "a body has a length or is chunked, not both")
	}
	return nil
}

// endHeader sets the state after the header.
func (s *Checker) endHeader() {
	switch {
	case s.upgrade:
		s.where = unchecked
	case s.chunked:
		*s = Checker{where: atChunkSize}
	case s.length > 0:
		*s = Checker{where: inBody, left: s.length}
	default:
		*s = Checker{}
	}
}

// Header checks the header of a request of HTTP/2, whose frames leave no doubt about where it and
// the body end. It rejects what is ambiguous without that: a repeated header that must be single,
// and a Host that differs from the request's authority.
func Header(authority string, h http.Header) error {
	const op = "gateway.header"
	for _, single := range singleHeaders {
		if len(h[http.CanonicalHeaderKey(single)]) > 1 {
			return fault.New(fault.Malformed, op, "the header %s is repeated", single)
		}
	}
	if host := h["Host"]; len(host) > 0 && !strings.EqualFold(host[0], authority) {
		return fault.New(fault.Malformed, op, "the header host differs from the authority")
	}
	return nil
}
