package gateway

import (
	"io"
	"net"
	"testing"
	"time"
)

// TestCorkStartsEmpty hands the pool a buffer that still holds something, as a
// hello once did: its bytes went out before the first message, and every
// client lost its connection over a frame that nobody had sent.
func TestCorkStartsEmpty(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	e := newEdge(&conn{Conn: here}, nil, time.Second)
	used := make([]byte, 0, 64)
	used = append(used, "left over"...)
	putBuffer(&used)
	go func() {
		e.cork()
		io.WriteString(e, "message")
		e.uncork()
		here.Close()
	}()
	got, err := io.ReadAll(there)
	if err != nil || string(got) != "message" {
		t.Errorf("sent %q, %v", got, err)
	}
	b := buffers.Get().(*[]byte)
	if len(*b) != 0 {
		t.Errorf("a buffer from the pool holds %q", *b)
	}
}
