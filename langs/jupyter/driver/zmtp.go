package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The flags of a ZMTP frame.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

const (
	greetingSize = 64
	// maxMessage bounds the frames of one message of the kernel, in bytes.
	maxMessage = 256 << 20
	// maxParts is how many frames a message may have.
	maxParts = 1024
	// handshakeLimit bounds the handshake on a connection.
	handshakeLimit = 10 * time.Second
)

var errTooLarge = errors.New("the kernel sent a message over 256 MiB")

// socket is the client's end of one ZMTP 3.0 connection without authentication.
type socket struct {
	conn net.Conn
	in   *bufio.Reader
	mu   sync.Mutex // guards writing
}

// dial connects to a kernel's socket. kind is the type of the client's socket: DEALER, SUB or REQ.
func dial(network, address, kind, identity string) (*socket, error) {
	conn, err := net.DialTimeout(network, address, handshakeLimit)
	if err != nil {
		return nil, err
	}
	s := newSocket(conn)
	if err := s.handshake(kind, identity); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

func newSocket(conn net.Conn) *socket {
	return &socket{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
}

func (s *socket) handshake(kind, identity string) error {
	if err := s.conn.SetDeadline(time.Now().Add(handshakeLimit)); err != nil {
		return err
	}
	greeting := make([]byte, greetingSize)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	if _, err := s.conn.Write(greeting); err != nil {
		return err
	}
	if _, err := io.ReadFull(s.in, greeting); err != nil {
		return err
	}
	if greeting[0] != 0xff || greeting[9]&1 != 1 || greeting[10] < 3 {
		return errors.New("the kernel's socket does not speak ZMTP 3")
	}
	ready := []byte("\x05READY")
	for _, p := range [][2]string{{"Socket-Type", kind}, {"Identity", identity}} {
		ready = append(append(ready, byte(len(p[0]))), p[0]...)
		ready = append(binary.BigEndian.AppendUint32(ready, uint32(len(p[1]))), p[1]...)
	}
	if err := s.write(appendFrame(nil, flagCommand, ready)); err != nil {
		return err
	}
	flags, body, err := s.frame(greetingSize << 10)
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 || len(body) < 6 || string(body[:6]) != "\x05READY" {
		return fmt.Errorf("the kernel's socket refused the handshake: %.100q", body)
	}
	return s.conn.SetDeadline(time.Time{})
}

func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}

// frame reads one frame with a body of at most limit bytes.
func (s *socket) frame(limit int) (flags byte, body []byte, err error) {
	if flags, err = s.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	var size uint64
	if flags&flagLong != 0 {
		var long [8]byte
		if _, err = io.ReadFull(s.in, long[:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(long[:])
	} else {
		short, err := s.in.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = uint64(short)
	}
	if size > uint64(limit) {
		return 0, nil, errTooLarge
	}
	body = make([]byte, size)
	_, err = io.ReadFull(s.in, body)
	return flags, body, err
}

// receive reads the next message, and answers pings.
func (s *socket) receive() ([][]byte, error) {
	var parts [][]byte
	left := maxMessage
	for {
		flags, body, err := s.frame(left)
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			// A ping has a name, two bytes of lifetime, and a context that the answer repeats.
			if len(body) >= 7 && string(body[:5]) == "\x04PING" {
				pong := append([]byte("\x04PONG"), body[7:]...)
				if err := s.write(appendFrame(nil, flagCommand, pong)); err != nil {
					return nil, err
				}
			}
			continue
		}
		left -= len(body)
		if parts = append(parts, body); len(parts) > maxParts {
			return nil, errTooLarge
		}
		if flags&flagMore == 0 {
			return parts, nil
		}
	}
}

// encodeParts returns the frames of a message.
func encodeParts(parts [][]byte) []byte {
	var b []byte
	for i, p := range parts {
		var flags byte
		if i < len(parts)-1 {
			flags = flagMore
		}
		b = appendFrame(b, flags, p)
	}
	return b
}

func (s *socket) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.conn.Write(b)
	return err
}

func (s *socket) close() { _ = s.conn.Close() }
