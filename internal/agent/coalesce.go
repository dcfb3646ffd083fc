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
func (c *channel) took(n int, now time.Time) {
	if n >= smallRead || now.Sub(c.readAt) > napReset {
		c.small = 0
	} else {
		c.small++
	}
	c.readAt = now
}

// nap reports whether output is to gather before it is read. A kernel's frames
// have an order that reading decides, and an echo is waited for.
func (c *channel) nap(now time.Time) bool {
	return c.small >= smallReads && !c.isKernel() && !c.finished && now.Sub(c.readAt) < napTime*time.Millisecond &&
		now.UnixNano()-c.typed.Load() > int64(keyTime)
}
