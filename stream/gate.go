package stream

import "sync"

// SmallWrite is the size up to which a write passes a Gate before larger
// ones, in bytes: a key's echo, an acknowledgement, a reply.
const SmallWrite = 4 << 10

// gateShare is how many bytes of small writes pass in a row while a large one
// waits: it waits no longer for them than they for it.
const gateShare = 64 << 10

// Gate lets those who write to one wire through, one at a time: who has little
// to write before all who have much, those in the order in which they came. So
// what is ahead of an echo is the one write that is under way, and not a piece
// of each flood. The zero value is ready.
//
// Each writer passes once for each write and waits until it is through, so
// nothing that one writer writes is overtaken by what it writes later.
type Gate struct {
	mu           sync.Mutex // guards all below
	held         bool
	small, large []chan struct{} // who waits, closed to let one through
	streak       int             // bytes of small writes since a large one waits
}

// Enter waits for the turn of a write of n bytes.
func (g *Gate) Enter(n int) {
	g.mu.Lock()
	if !g.held {
		g.held = true
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	if n <= SmallWrite {
		g.small = append(g.small, turn)
	} else {
		g.large = append(g.large, turn)
	}
	g.mu.Unlock()
	<-turn
}

// Leave ends the turn of a write of n bytes and begins the next one's.
func (g *Gate) Leave(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.large) == 0 || n > SmallWrite {
		g.streak = 0
	} else {
		g.streak += n
	}
	queue := &g.small
	if len(g.small) == 0 || len(g.large) > 0 && g.streak >= gateShare {
		queue = &g.large
	}
	if len(*queue) == 0 {
		g.held = false
		return
	}
	close((*queue)[0])
	(*queue)[0] = nil
	*queue = (*queue)[1:]
}

// Waiting is how many writes wait for their turn.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.small) + len(g.large)
}
