package agent

import "time"

// A program that writes byte by byte would have the agent woken for each: a
// switch of processes that costs many times the write. After smallReads reads
// of less than smallRead bytes, each within napReset of the one before, the
// loop lets the pipe fill for napTime. It holds 64 KiB, so the program goes on.
const (
	smallReads = 16
	smallRead  = 4 << 10
	napReset   = 5 * time.Millisecond
	napTime    = 1 // ms
)

// took notes that n bytes of output were read.
func (l *loop) took(n int, now time.Time) {
	if n >= smallRead || now.Sub(l.readAt) > napReset {
		l.small = 0
	} else {
		l.small++
	}
	l.readAt = now
}

// nap reports whether output is to gather before it is read. A kernel's frames
// have an order that reading decides, and an echo is waited for.
func (l *loop) nap(now time.Time) bool {
	return l.small >= smallReads && !l.c.isKernel() && !l.finished && now.Sub(l.readAt) < napTime*time.Millisecond &&
		now.UnixNano()-l.c.typed.Load() > int64(keyTime)
}
