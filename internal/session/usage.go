package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/sandbox"
)

// usageEvery is the time between two records of a session that lives.
const usageEvery = time.Minute

// UsageRecord is what a session has used since its record before: a line of
// the usage journal. Adding records up gives what was used, by whatever they
// are grouped.
type UsageRecord struct {
	Time    time.Time `json:"time"`
	Tenant  string    `json:"tenant"`
	Subject string    `json:"subject"`
	Session string    `json:"session"`
	// Seconds are those with a sandbox, running or paused.
	Seconds float64 `json:"seconds"`
	// CPUSeconds are the sandbox's, gVisor included.
	CPUSeconds float64 `json:"cpu_seconds"`
	// MemorySeconds are MiB times seconds.
	MemorySeconds float64 `json:"memory_mib_seconds"`
	// BytesIn are input and files written, BytesOut output and files read.
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	Cells    int64 `json:"cells"`
	// NetworkIn and NetworkOut are what came from the outside and went there,
	// in bytes.
	NetworkIn  int64 `json:"network_in,omitempty"`
	NetworkOut int64 `json:"network_out,omitempty"`
	// Ended is set in the last record of a session, to the reason.
	Ended string `json:"ended,omitempty"`
}

// readMeter reads a machine's counters, also once it has ended. ok is false when
// the backend has none.
func readMeter(machine sandbox.Machine) (u sandbox.Usage, ok bool) {
	if machine == nil {
		return u, false
	}
	u, err := machine.Usage(context.Background())
	if fault.Is(err, fault.SandboxLost) {
		return machine.FinalUsage(), true
	}
	return u, err == nil
}

// meter measures a session. Its counters are for any goroutine.
type meter struct {
	cells, in, out, netIn, netOut atomic.Int64

	mu      sync.Mutex      // guards all below
	machine sandbox.Machine // whose counters were read last
	at      time.Time
	cpu     time.Duration
	memory  int64
	// told is what has been recorded of the counters.
	told struct{ cells, in, out, netIn, netOut int64 }
}

// woke begins with the machine that a session was restored into: all that it
// uses is the session's.
func (t *meter) woke(machine sandbox.Machine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.machine, t.at, t.cpu, t.memory = machine, time.Now(), 0, 0
}

// begin takes the counters of a machine that the session is given as its
// beginning: what was used to make it ready is not the session's.
func (t *meter) begin(machine sandbox.Machine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.machine, t.at = machine, time.Now()
	u, _ := readMeter(machine)
	t.cpu, t.memory = u.CPU, u.Memory
}

// take returns what was used since the last time, and whether that is
// anything.
func (t *meter) take(machine sandbox.Machine) (r UsageRecord, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cells, in, out := t.cells.Load(), t.in.Load(), t.out.Load()
	r.Cells, r.BytesIn, r.BytesOut = cells-t.told.cells, in-t.told.in, out-t.told.out
	t.told.cells, t.told.in, t.told.out = cells, in, out
	netIn, netOut := t.netIn.Load(), t.netOut.Load()
	r.NetworkIn, r.NetworkOut = netIn-t.told.netIn, netOut-t.told.netOut
	t.told.netIn, t.told.netOut = netIn, netOut
	if u, ok := readMeter(machine); ok {
		now := time.Now()
		if machine != t.machine { // a fork's: all of it is the session's
			t.machine, t.cpu, t.memory, t.at = machine, 0, 0, now
		}
		r.Seconds = now.Sub(t.at).Seconds()
		r.CPUSeconds = (u.CPU - t.cpu).Seconds()
		r.MemorySeconds = r.Seconds * float64(t.memory+u.Memory) / 2 / (1 << 20)
		t.cpu, t.memory, t.at = u.CPU, u.Memory, now
	}
	return r, r.Cells != 0 || r.BytesIn != 0 || r.BytesOut != 0 || r.NetworkIn != 0 || r.NetworkOut != 0 || r.Seconds > 0
}

// measure records what the session has used. asleep says that it has no
// machine, ended is the reason of its end.
func (s *Session) measure(asleep bool, ended string) {
	j := s.m.cfg.Usage
	if j == nil {
		return
	}
	s.mu.Lock()
	machine := s.machine
	if asleep || s.state == hibernated || s.state == resuming {
		machine = nil
	}
	s.mu.Unlock()
	r, some := s.meter.take(machine)
	if !some && ended == "" {
		return
	}
	r.Time, r.Tenant, r.Subject, r.Session, r.Ended = time.Now().UTC(), s.tenant, s.subject, s.id, ended
	j.Append(r)
}

// measureAll records what all sessions have used, once a minute.
func (m *Manager) measureAll(now time.Time, all []*Session) {
	if m.cfg.Usage == nil || now.Sub(m.measured) < usageEvery {
		return
	}
	m.measured = now
	for _, s := range all {
		if !s.IsLost() {
			s.measure(false, "")
		}
	}
}
