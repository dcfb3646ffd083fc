package stream

import "sync"

// SmallWrite is the size up to which a write passes a WriteLock before larger
// ones, in bytes: a key's echo, an acknowledgement, a reply.
const SmallWrite = 4 << 10

// smallShare is how many bytes of small writes pass in a row while a large one
// waits.
const smallShare = 64 << 10

// WriteLock lets several goroutines write to one wire, one at a time. Small writes pass before
// large ones. Writes of one class pass in the order in which they came. So an echo waits only for
// the one write in progress, and not for a part of each large transfer. The zero value is unlocked.
//
// A goroutine locks once for each write and waits until the write is done, so its own writes never
// overtake each other.
type WriteLock struct {
	mu           sync.Mutex // guards all fields below
	held         bool
	small, large []chan struct{} // one channel for each waiting write; closed when its turn begins
	streak       int             // bytes of small writes since a large one began to wait
}

// Lock waits for the turn of a write of n bytes.
func (l *WriteLock) Lock(n int) {
	l.mu.Lock()
	if !l.held {
		l.held = true
		l.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	if n <= SmallWrite {
		l.small = append(l.small, turn)
	} else {
		l.large = append(l.large, turn)
	}
	l.mu.Unlock()
	<-turn
}

// Unlock ends the turn of a write of n bytes and begins the next one.
func (l *WriteLock) Unlock(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.large) == 0 || n > SmallWrite {
		l.streak = 0
	} else {
		l.streak += n
	}
	queue := &l.small
	if len(l.small) == 0 || len(l.large) > 0 && l.streak >= smallShare {
		queue = &l.large
	}
	if len(*queue) == 0 {
		l.held = false
		return
	}
	close((*queue)[0])
	(*queue)[0] = nil
	*queue = (*queue)[1:]
}

// Waiting returns how many writes wait for their turn.
func (l *WriteLock) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.small) + len(l.large)
}
