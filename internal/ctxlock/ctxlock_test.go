package ctxlock

import (
	"context"
	"errors"
	"testing"
)

func TestLock(t *testing.T) {
	l := New()
	ctx, cancel := context.WithCancel(context.Background())
	if err := l.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	l.Held()
	if l.TryLock() {
		t.Error("it was taken twice")
	}
	got := make(chan error)
	go func() { got <- l.Lock(ctx) }()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait whose context has ended: %v", err)
	}
	end := make(chan struct{})
	close(end)
	if ended, err := l.LockUntil(context.Background(), end); !ended || err != nil {
		t.Errorf("a wait whose end has come: %v, %v", ended, err)
	}
	go func() { got <- l.Lock(context.Background()) }()
	l.Unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	l.Unlock()
	for name, f := range map[string]func(){"Held": l.Held, "Unlock": l.Unlock} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a free lock does not panic", name)
				}
			}()
			f()
		}()
	}
	if !l.TryLock() {
		t.Error("a free lock was not taken")
	}
}
