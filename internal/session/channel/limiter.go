package channel

import (
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
)

// outputLimiter limits the output of each of a session's channels, in bytes per second. It holds
// back the Acks of a channel that is over the limit. The channel's further output then waits in the
// sandbox. No output is lost, and other channels do not wait.
type outputLimiter struct {
	rate  int64 // bytes per second
	agent *client.Client

	mu       sync.Mutex // guards all below
	channels map[uint32]*outputBudget
	closed   bool
}

// outputBudget is how much output one number on the wire may produce now.
type outputBudget struct {
	level    float64 // bytes of output that may come at once; negative while it is held
	at       time.Time
	reported uint32 // the last cell that was reported, plus 1
	timer    *time.Timer
}

// outputBurst is the time whose output may come at once. A window of the agent's wire that is open
// may let more through.
const outputBurst = time.Second

func newOutputLimiter(rate int64, a *client.Client) *outputLimiter {
	return &outputLimiter{rate: rate, agent: a, channels: map[uint32]*outputBudget{}}
}

// count counts output of a channel. It returns true when the channel begins to wait and this has
// not been reported for the cell.
func (p *outputLimiter) count(ch, cell uint32, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	now := time.Now()
	c := p.channels[ch]
	most := float64(p.rate) * outputBurst.Seconds()
	if c == nil {
		c = &outputBudget{level: most, at: now}
		p.channels[ch] = c
	}
	c.level = min(most, c.level+float64(p.rate)*now.Sub(c.at).Seconds()) - float64(n)
	c.at = now
	if c.level >= 0 || c.timer != nil {
		return false
	}
	wait := time.Duration(-c.level / float64(p.rate) * float64(time.Second))
	p.agent.Hold(ch, true)
	c.timer = time.AfterFunc(wait, func() { p.release(ch) })
	first := c.reported != cell+1
	c.reported = cell + 1
	return first
}

// release lets a channel continue. If the output that came in the meantime is over the limit too,
// the channel waits again.
func (p *outputLimiter) release(ch uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.channels[ch]
	if c == nil || p.closed {
		return
	}
	now := time.Now()
	c.level += float64(p.rate) * now.Sub(c.at).Seconds()
	c.at = now
	if c.level < 0 {
		c.timer.Reset(time.Duration(-c.level / float64(p.rate) * float64(time.Second)))
		return
	}
	c.timer = nil
	p.agent.Hold(ch, false)
}

// forget removes a channel that has ended.
func (p *outputLimiter) forget(ch uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.channels[ch]; c != nil && c.timer != nil {
		c.timer.Stop()
	}
	delete(p.channels, ch)
}

// close lets all channels continue.
func (p *outputLimiter) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.channels {
		if c.timer != nil {
			c.timer.Stop()
		}
	}
}
