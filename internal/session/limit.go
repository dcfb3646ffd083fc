package session

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// leastLimits returns the smallest limits with which a sandbox is usable.
func leastLimits() protocol.Limits {
	return protocol.Limits{
		MemoryBytes: 128 << 20, CPUs: 0.1, Processes: 32, OpenFiles: 64, DiskBytes: 16 << 20, TmpBytes: 1 << 20,
		Inodes: 64, OutputBytesPerSecond: 64 << 10, CellSeconds: 1,
	}
}

// checkLimits checks the limits that a client asks for against the server's bounds.
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

// lostBy is the limit that a session was lost by; nil when it was another
// reason. Preconditions: s.mu is held.
func (s *Session) lostBy() *protocol.Reached {
	switch {
	case s.reason == "memory" && s.spec.Limits.MemoryBytes > 0:
		return &protocol.Reached{Limit: "memory_bytes", Max: s.spec.Limits.MemoryBytes, Lost: "the sandbox with its variables, files and processes"}
	case s.reason == "expired":
		return &protocol.Reached{Limit: "lifetime_seconds", Max: int64(s.status.Expires.Sub(s.spec.Created) / time.Second), Lost: "the sandbox with its variables, files and processes"}
	}
	return nil
}
