package agent

import "time"

// A program that writes byte by byte would have the agent woken for each: a
// switch of processes that costs many times the write. After smallReads reads
// of less than smallRead bytes, each within napReset of the one before, the
// loop lets the pipe fill for napTime. It holds 64 KiB, so the program goes on.
const (
	maxSmallReads = 16
	smallRead     = 4 << 10
	coalesceReset = 5 * time.Millisecond
	coalesceTime  = 1 // ms
)

// noteRead notes that n bytes of output were read.
func (l *loop) noteRead(n int, now time.Time) {
	if n >= smallRead || now.Sub(l.readAt) > coalesceReset {
		l.smallReads = 0
	} else {
		l.smallReads++
	}
	l.readAt = now
}

// coalescing reports whether output is to gather before it is read. A kernel's frames
// have an order that reading decides, and an echo is waited for.
func (l *loop) coalescing(now time.Time) bool {
	return l.smallReads >= maxSmallReads && !l.c.isKernel() && !l.finished && now.Sub(l.readAt) < coalesceTime*time.Millisecond &&
		now.UnixNano()-l.c.typed.Load() > int64(keyTime)
}
