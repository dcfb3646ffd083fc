package noderpc

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/frame"
)

// TestSmallFramesOvertake: channels that send much data over a link whose peer does not read wait
// for each other. A small frame is sent before all of them.
func TestSmallFramesOvertake(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	full := make(chan error, 1)
	serve(t, path, func(_ context.Context, l *Link) error {
		if _, err := l.Next(); err != nil {
			return err
		}
		send := func(ch uint32, size int) {
			_ = l.Send(frame.Frame{Type: frame.Records, Channel: ch, Body: make([]byte, size)})
		}
		waits := func(n int) bool {
			tick := time.NewTicker(time.Millisecond) // no event reports a writer that waits
			defer tick.Stop()
			for end := time.Now().Add(10 * time.Second); l.turn.Waiting() != n; <-tick.C {
				if time.Now().After(end) {
					full <- errors.New("the link accepts more frames than it should")
					return false
				}
			}
			return true
		}
		// One frame is more than the link takes while the peer does not read, so the others wait.
		for ch := uint32(1); ch <= 5; ch++ {
			go send(ch, 2*Window)
		}
		if !waits(4) {
			return nil
		}
		go send(9, 30)
		if waits(5) {
			full <- nil
		}
		_, err := l.Next()
		return err
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	l, err := client(t, path, ClientOptions{}).Open(ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Send(frame.Frame{Type: frame.Input}); err != nil {
		t.Fatal(err)
	}
	if err := <-full; err != nil {
		t.Fatal(err)
	}
	var order []uint32
	for range 6 {
		f, err := l.Next()
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, f.Channel)
	}
	if order[1] != 9 {
		t.Errorf("the channels came in the order %v", order)
	}
}
