package edge

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// countedZeros is a client that sends more than any connection discards. It waits for ready before it
// sends.
type countedZeros struct {
	ready <-chan struct{}
	begun chan<- struct{}
	sent  atomic.Int64
}

func (z *countedZeros) Read(p []byte) (int, error) {
	if z.sent.Load() == 0 && z.begun != nil {
		z.begun <- struct{}{}
		<-z.ready
	}
	if z.sent.Load() > 2*lingerBytes {
		return 0, io.EOF
	}
	z.sent.Add(int64(len(p)))
	return len(p), nil
}

// TestHardening_RefusedUploadsCostLittle: few connections whose request was refused may discard much
// that a client still sends. The others discard little, and later ones much again.
func TestHardening_RefusedUploadsCostLittle(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listen(ln, Config{}, false)
	defer l.Close()
	ready, begun := make(chan struct{}), make(chan struct{})
	done := make(chan struct{}, maxLingering)
	for range maxLingering {
		go func() {
			l.discard(&countedZeros{ready: ready, begun: begun, sent: atomic.Int64{}})
			done <- struct{}{}
		}()
		<-begun
	}
	var z countedZeros
	l.discard(&z)
	if n := z.sent.Load(); n < busyLingerBytes || n > 2*busyLingerBytes {
		t.Errorf("beside many others %d bytes were discarded", n)
	}
	close(ready)
	for range maxLingering {
		<-done
	}
	z.sent.Store(0)
	l.discard(&z)
	if n := z.sent.Load(); n < lingerBytes {
		t.Errorf("alone only %d bytes were discarded", n)
	}
}
