package noderpc

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/frame"
)

// TestIdleLinksAreSmall: links that carried much data and are now idle hold no buffers, on either
// side.
func TestIdleLinksAreSmall(t *testing.T) {
	const links = 200
	path := filepath.Join(t.TempDir(), "node")
	served := make(chan struct{}, links)
	serve(t, path, func(_ context.Context, l *Link) error {
		for {
			l.Wait()
			f, err := l.Next()
			if err != nil {
				return err
			}
			if err := l.Send(frame.Frame{Type: frame.Data, Body: make([]byte, 256<<10)},
				frame.Frame{Type: f.Type}); err != nil {
				return err
			}
			served <- struct{}{}
		}
	})
	measure := func() uint64 {
		runtime.GC()
		runtime.GC() // the pools are empty after the second collection
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	c := client(t, path, ClientOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	before := measure()
	waiting := make(chan struct{}, links)
	for range links {
		l, err := c.Open(ctx, alice)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for n := 0; ; n++ {
				if n == 2 { // both frames have arrived
					l.Shrink()
					waiting <- struct{}{}
				}
				l.Wait()
				if _, err := l.Next(); err != nil {
					return
				}
			}
		}()
		if err := l.Send(frame.Frame{Type: frame.Input, Body: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
		<-served
		<-waiting
	}
	per := int64(measure()-before) / links
	t.Logf("%d bytes for both ends of an idle link", per)
	if limit := int64(20 << 10); !raced && per > limit {
		t.Errorf("both ends of an idle link take %d bytes, want at most %d", per, limit)
	}
}
