package jupyter

import (
	"context"
	"sync"

	"github.com/sandgate/sandgate/protocol/fault"
)

// locks are locks with names. A lock that nobody holds or waits for needs no memory.
type locks struct {
	mu  sync.Mutex // guards all below; leaf
	all map[string]*namedLock
}

type namedLock struct {
	held  chan struct{} // has room for one, who holds the lock
	users int           // holds it or waits for it
}

// lock takes a lock, until unlock is called. Errors: Canceled or DeadlineExceeded.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*namedLock{}
	}
	n := l.all[name]
	if n == nil {
		n = &namedLock{held: make(chan struct{}, 1)}
		l.all[name] = n
	}
	n.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n.users--; n.users == 0 {
			delete(l.all, name)
		}
	}
	select {
	case n.held <- struct{}{}:
		return func() {
			<-n.held
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "jupyter.lock", ctx.Err())
	}
}
