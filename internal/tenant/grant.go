package tenant

import "time"

// Grant is a run ticket, as it is counted.
type Grant struct {
	// ID names it: letters and digits.
	ID string
	// Thing is all else of it, which nobody here reads.
	Thing []byte
	// Origin is that of the pages which may use it. Embed is for one that is used
	// by a frame on these.
	Origin string
	Embed  bool
	Life   time.Duration
	// Uses is how often it begins a run, AtOnce how many go on at a time,
	// PerMinute how many begin in any minute.
	Uses, AtOnce, PerMinute int
}

// Verdict says whether a run may begin.
type Verdict string

// The verdicts.
const (
	Begun   Verdict = "begun"
	Unknown Verdict = "unknown" // there is no such ticket
	Over    Verdict = "over"    // its time is
	Used    Verdict = "used"    // as often as it may be
	Busy    Verdict = "busy"    // as many runs as it allows go on
	Fast    Verdict = "fast"    // as many as it allows in a minute have begun
)

// MaxSpent is how many buckets are settled in one step.
const MaxSpent = 256

// Spent is what a gateway has let through of a quota of requests.
type Spent struct {
	// Name is whose quota it is. Rate is its requests a second, Most how many may
	// come at once.
	Name string
	Rate float64
	Most float64
	// Requests are those since the last time.
	Requests int
}
