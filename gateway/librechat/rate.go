package librechat

import (
	"maps"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandgate/sandgate/protocol/fault"
)

// rateWindow is the time that Settings.Runs is about, and maxRated the most users whose runs a
// gateway counts.
const (
	rateWindow = 30 * time.Second
	maxRated   = 10_000
)

// rates counts the runs of users. It is safe for concurrent use.
type rates struct {
	runs int

	mu    sync.Mutex // guards users
	users map[string]*rate.Limiter
}

func newRates(runs int) *rates { return &rates{runs: runs, users: map[string]*rate.Limiter{}} }

// admit counts a run. Errors: Exhausted with the time after which the next one is admitted.
func (x *rates) admit(user string, now time.Time) error {
	if x.runs == 0 {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.users[user]
	if l == nil {
		x.reserve(now)
		l = rate.NewLimiter(rate.Every(rateWindow/time.Duration(x.runs)), x.runs)
		x.users[user] = l
	}
	if l.AllowN(now, 1) {
		return nil
	}
	wait := (1 - l.TokensAt(now)) / float64(l.Limit())
	return &fault.Error{
		Kind: fault.Exhausted, Op: "librechat.rate", Cause: fault.CauseLimit,
		Message:    "this user has begun as many runs as are admitted in 30 s",
		RetryAfter: max(1, int(math.Ceil(wait))),
	}
}

// reserve removes users whose counts are full again, so that there is a place. If there is none, all
// are removed: users then get more runs than they should, for one window.
func (x *rates) reserve(now time.Time) {
	if len(x.users) < maxRated {
		return
	}
	maps.DeleteFunc(x.users, func(_ string, l *rate.Limiter) bool {
		return l.TokensAt(now) >= float64(x.runs)
	})
	if len(x.users) >= maxRated {
		clear(x.users)
	}
}
