package tenant

import "time"

// Grant is a run token as stores count it.
type Grant struct {
	// ID consists of letters and digits.
	ID string
	// Thing is the rest of the token. Stores do not read it.
	Thing []byte
	// Origin is the origin of the pages that may use the token. Embed is set if a
	// frame on those pages uses it.
	Origin string
	Embed  bool
	Life   time.Duration
	// Uses is the number of runs that the token begins, AtOnce how many may be
	// under way, PerMinute how many may begin in any minute.
	Uses, AtOnce, PerMinute int
}

// Verdict says whether a run may begin.
type Verdict string

// The verdicts.
const (
	Begun   Verdict = "begun"
	Unknown Verdict = "unknown" // there is no such token
	Over    Verdict = "over"    // the token has expired
	Used    Verdict = "used"    // the token has no uses left
	Busy    Verdict = "busy"    // the token has AtOnce runs under way
	Fast    Verdict = "fast"    // the token has begun PerMinute runs in this minute
)

// MaxConsumptions is the number of quotas that are settled in one step.
const MaxConsumptions = 256

// Consumption is what a gateway has admitted of a quota of requests.
type Consumption struct {
	// Name identifies the quota. Rate is its requests per second, Most its burst.
	Name string
	Rate float64
	Most float64
	// Requests is the number of requests since the last settlement.
	Requests int
}
