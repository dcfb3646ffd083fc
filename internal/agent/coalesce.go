package agent

import "time"

// A program that writes byte by byte would wake the agent for each byte: a
// process switch that costs many times as much as the write. After
// maxSmallReads reads of less than smallRead bytes, each within coalesceReset
// of the one before, the loop lets the pipe fill for coalesceTime. The pipe
// holds 64 KiB, so the program does not block.
const (
	maxSmallReads = 16
	smallRead     = 4 << 10
	coalesceReset = 5 * time.Millisecond
	coalesceTime  = 1 // ms
)

// noteRead records a read of n bytes.
func (l *loop) noteRead(n int, now time.Time) {
	if n >= smallRead || now.Sub(l.readAt) > coalesceReset {
		l.smallReads = 0
	} else {
		l.smallReads++
	}
	l.readAt = now
}

// coalescing reports whether the loop lets the pipe fill before it reads. It
// never does so for a kernel, because reading decides the order of its frames,
// nor while somebody waits for an echo.
func (l *loop) coalescing(now time.Time) bool {
	return l.smallReads >= maxSmallReads && !l.c.isKernel() && !l.finished &&
		now.Sub(l.readAt) < coalesceTime*time.Millisecond &&
		now.UnixNano()-l.c.typed.Load() > int64(keyTime)
}
