package activity

import (
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// slowAfter is how often transfers are looked at while a rest of the session waits for them.
	// Those that have moved less than slowBytes since the last look are cut.
	slowAfter = 3 * time.Second
	slowBytes = 64 << 10
)

// Transfer is the content of a file that is on its way into or out of a session.
type Transfer struct {
	of    *Activity
	cut   func(error)
	moved atomic.Int64 // bytes

	// Activity.mu guards these.
	seen int64     // moved at the last look
	at   time.Time // the time when it was looked at; zero for never
}

// Transfer counts a transfer until End. cut ends it with an error. It must not wait.
func (a *Activity) Transfer(cut func(error)) *Transfer {
	t := &Transfer{of: a, cut: cut}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.transfers == nil {
		a.transfers = map[*Transfer]struct{}{}
	}
	a.transfers[t] = struct{}{}
	return t
}

// Moved adds bytes that were sent or received. A nil Transfer does not count.
func (t *Transfer) Moved(n int) {
	if t != nil {
		t.moved.Add(int64(n))
	}
}

// End is called once the transfer has ended.
func (t *Transfer) End() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	delete(t.of.transfers, t)
}

// CutSlowTransfers looks at the transfers and ends the slow ones until stop is called.
func (a *Activity) CutSlowTransfers() (stop func()) {
	if a.Busy() == nil {
		return func() {} // the usual case
	}
	why := fault.New(fault.Conflict, "session.rest",
		"the session is paused or hibernated, and the transfer was too slow to wait for; repeat it")
	done := make(chan struct{})
	go func() {
		look := time.NewTicker(slowAfter)
		defer look.Stop()
		for {
			a.cutSlow(slowBytes, slowAfter/2, why)
			select {
			case <-look.C:
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// cutSlow ends the transfers that have moved fewer than least bytes since a look at least a time
// ago. The first look at a transfer only counts its bytes.
func (a *Activity) cutSlow(least int64, within time.Duration, why error) {
	a.mu.Lock()
	now := time.Now()
	var slow []*Transfer
	for t := range a.transfers {
		moved := t.moved.Load()
		switch {
		case t.at.IsZero():
		case now.Sub(t.at) < within:
			continue
		case moved-t.seen < least:
			slow = append(slow, t)
		}
		t.seen, t.at = moved, now
	}
	a.mu.Unlock()
	for _, t := range slow {
		t.cut(why)
	}
}
