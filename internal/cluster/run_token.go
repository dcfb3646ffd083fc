package cluster

import "time"

// RunToken is the part of a run token that a store needs for counting its uses.
type RunToken struct {
	// ID has letters and digits.
	ID string
	// Data is the other part of the token. Stores do not read it.
	Data []byte
	// Origin is the origin of the pages that may use the token. Embed marks a token
	// that a frame on these pages uses.
	Origin string
	Embed  bool
	Life   time.Duration
	// Uses is the number of runs. Concurrent is the number of runs at the same time,
	// PerMinute the number of runs that start within a minute.
	Uses, Concurrent, PerMinute int
}

// RunTokenVerdict reports whether a run may start.
type RunTokenVerdict string

// The verdicts.
const (
	RunTokenAccepted RunTokenVerdict = "begun"
	RunTokenUnknown  RunTokenVerdict = "unknown"
	RunTokenExpired  RunTokenVerdict = "over"
	RunTokenUsedUp   RunTokenVerdict = "used"
	RunTokenBusy     RunTokenVerdict = "busy" // too many runs at the same time
	RunTokenTooFast  RunTokenVerdict = "fast" // too many runs within a minute
)
