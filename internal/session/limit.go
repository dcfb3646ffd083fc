package session

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// leastLimits are below what a sandbox is of no use.
func leastLimits() protocol.Limits {
	return protocol.Limits{
		MemoryBytes: 128 << 20, CPUs: 0.1, Processes: 32, OpenFiles: 64, DiskBytes: 16 << 20, TmpBytes: 1 << 20,
		Inodes: 64, OutputBytesPerSecond: 64 << 10, CellSeconds: 1,
	}
}

// checkLimits holds what a client asks for against the server's bounds.
func (m *Manager) checkLimits(op string, asked *protocol.Limits) error {
	if asked == nil {
		return nil
	}
	most := warm.MergeLimits(m.cfg.Limits, m.cfg.MaxLimits)
	if most.CellSeconds > 0 && m.cfg.MaxLimits.CellSeconds == 0 {
		most.CellSeconds = m.cfg.Limits.CellSeconds
	}
	want, upper, lower := reflect.ValueOf(*asked), reflect.ValueOf(most), reflect.ValueOf(leastLimits())
	for i := range want.NumField() {
		if want.Field(i).IsZero() {
			continue
		}
		name, _, _ := strings.Cut(want.Type().Field(i).Tag.Get("json"), ",")
		n, hi, lo := number(want.Field(i)), number(upper.Field(i)), number(lower.Field(i))
		// Without a bound of the server's, any will do for these two: they
		// make a session do with less.
		if hi == 0 && (name == "output_bytes_per_second" || name == "cell_seconds") {
			hi = 1 << 40
		}
		if !(n >= lo && n <= hi) {
			return fault.Invalid(op, "limits."+name, "%s is between %v and %v here", name, lower.Field(i), upperText(hi))
		}
	}
	return nil
}

func upperText(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.2f", f), ".00") }

func number(v reflect.Value) float64 {
	if v.CanFloat() {
		return v.Float()
	}
	return float64(v.Int())
}

// cellLimit is how long a cell of the session may run; 0 means for ever.
func (s *Session) cellLimit() time.Duration {
	return time.Duration(s.limits.CellSeconds) * time.Second
}

// noteLimit notes in the channel's log that a limit was reached.
func (c *Channel) noteLimit(cell uint32, r protocol.Reached) {
	c.session.m.count.limitsReached.Add(1)
	body, err := json.Marshal(struct {
		Event string `json:"event"`
		protocol.Reached
	}{"limit", r})
	if err == nil {
		_, _ = c.log.Append(stream.KindEvent, cell, body) // it has ended: its readers know
	}
}

// lostBy is the limit that a session was lost by; nil when it was another
// reason. Preconditions: s.mu is held.
func (s *Session) lostBy() *protocol.Reached {
	switch {
	case s.reason == "memory" && s.limits.MemoryBytes > 0:
		return &protocol.Reached{Limit: "memory_bytes", Max: s.limits.MemoryBytes, Lost: "the sandbox with its variables, files and processes"}
	case s.reason == "expired":
		return &protocol.Reached{Limit: "lifetime_seconds", Max: int64(s.expires.Sub(s.created) / time.Second), Lost: "the sandbox with its variables, files and processes"}
	}
	return nil
}

// pace holds a session's channels to a number of bytes a second. What a
// channel prints faster waits in the sandbox: nothing is lost, and nobody else
// waits, because only that channel's Acks are held back.
type pace struct {
	rate  int64 // bytes a second
	agent *client.Client

	mu       sync.Mutex // guards all below
	channels map[uint32]*paced
	closed   bool
}

// paced is what one channel of the wire has left to print.
type paced struct {
	level float64 // bytes it may print at once; negative while it is held
	at    time.Time
	told  uint32 // the cell that was told last, and 1
	timer *time.Timer
}

// paceBurst is how much of a second's output may come at once, and more than
// that from a window that was open.
const paceBurst = time.Second

func newPace(rate int64, a *client.Client) *pace {
	return &pace{rate: rate, agent: a, channels: map[uint32]*paced{}}
}

// took notes output of a channel. It is true when the channel begins to wait
// and its viewers have not been told of that for this cell.
func (p *pace) took(ch, cell uint32, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	now := time.Now()
	c := p.channels[ch]
	most := float64(p.rate) * paceBurst.Seconds()
	if c == nil {
		c = &paced{level: most, at: now}
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
	told := c.told == cell+1
	c.told = cell + 1
	return !told
}

// release lets a channel go on, or waits for what it has printed meanwhile.
func (p *pace) release(ch uint32) {
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

// forget lets go of a channel that has ended.
func (p *pace) forget(ch uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.channels[ch]; c != nil && c.timer != nil {
		c.timer.Stop()
	}
	delete(p.channels, ch)
}

// close ends all holding back.
func (p *pace) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.channels {
		if c.timer != nil {
			c.timer.Stop()
		}
	}
}
