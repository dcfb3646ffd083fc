package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/node"
)

// A run ticket lets the pages of one origin run code and nothing else. The
// page's own server mints it with its token and hands it to the page.

// runPrefix tells a run ticket from a token where both stand in Authorization.
const runPrefix = "sgr_"

const (
	defaultRunTicketLife = 5 * time.Minute
	maxRunTicketLife     = time.Hour
	maxRunTicketUses     = 1000
	maxRunTicketAtOnce   = 16
	maxRunTicketRate     = 600
)

// runLimits bound what the pages with a ticket can do. The zero value of each
// field means its default.
type runLimits struct {
	// TimeoutMS is the longest timeout of a run; default 60 s, at most 10 min.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// MaxOutputBytes is the most output of a run; default 1 MiB, at most 64 MiB.
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
	// Concurrent is how many runs go on at once; default 2, at most 16.
	Concurrent int `json:"concurrent,omitempty"`
	// PerMinute is how many begin in any minute; default 30, at most 600.
	PerMinute int `json:"per_minute,omitempty"`
}

func (l runLimits) withDefaults() runLimits {
	orDefault(&l.TimeoutMS, 60_000)
	orDefault(&l.MaxOutputBytes, defaultRunOutput)
	orDefault(&l.Concurrent, 2)
	orDefault(&l.PerMinute, 30)
	return l
}

// runTicket is one that was minted. The mint's lock guards what changes.
type runTicket struct {
	mint   *mint
	id     string
	who    node.Principal
	origin string
	// embed is set for a ticket that is used by the frame /embed/run, on pages
	// of the origin: requests then come from the server's own.
	embed   bool
	expires time.Time
	limits  runLimits

	left   int
	minute time.Time // when the present minute of the rate began
	begun  int       // runs of that minute
	// running are the sessions of its runs that go on. They can be fed and
	// stopped after the ticket has expired.
	running map[string]struct{}
}

// mint holds run tickets by their hashes until they expire.
type mint struct {
	limit int
	now   func() time.Time

	mu      sync.Mutex // guards all below and the tickets' changing fields; leaf
	m       map[[sha256.Size]byte]*runTicket
	origins map[string]int // how many tickets name each
	frames  map[string]int // the same for tickets to embed
	soonest time.Time      // no ticket expires before
}

func newMint(limit int) *mint {
	return &mint{
		limit: limit, now: time.Now, m: make(map[[sha256.Size]byte]*runTicket),
		origins: make(map[string]int), frames: make(map[string]int),
	}
}

// issue returns the secret of a new ticket, 256 random bits, whose fields the
// caller has checked.
func (m *mint) issue(t *runTicket) (string, error) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	secret := runPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	key := sha256.Sum256([]byte(secret))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	if len(m.m) >= m.limit {
		return "", &fault.Error{Kind: fault.Exhausted, Op: "gateway.mint", RetryAfter: 30, Message: "too many run tickets are out"}
	}
	t.mint, t.id, t.running = m, hex.EncodeToString(key[:8]), make(map[string]struct{})
	m.m[key] = t
	m.origins[t.origin]++
	if t.embed {
		m.frames[t.origin]++
	}
	if m.soonest.IsZero() || t.expires.Before(m.soonest) {
		m.soonest = t.expires
	}
	return secret, nil
}

// sweep forgets what has expired, once the first of them has. A ticket whose
// run goes on is kept for that. m.mu is held.
func (m *mint) sweep() {
	now := m.now()
	if len(m.m) == 0 || now.Before(m.soonest) {
		return
	}
	m.soonest = time.Time{}
	for key, t := range m.m {
		switch {
		case now.Before(t.expires):
			if m.soonest.IsZero() || t.expires.Before(m.soonest) {
				m.soonest = t.expires
			}
		case len(t.running) == 0:
			m.remove(key)
		}
	}
}

func (m *mint) remove(key [sha256.Size]byte) {
	t := m.m[key]
	delete(m.m, key)
	count := func(all map[string]int) {
		if all[t.origin]--; all[t.origin] <= 0 {
			delete(all, t.origin)
		}
	}
	count(m.origins)
	if t.embed {
		count(m.frames)
	}
}

// names reports whether a ticket was minted for the origin and has neither
// expired nor been revoked. One that is used up counts: its page is told so.
func (m *mint) names(origin string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	return m.origins[strings.ToLower(origin)] > 0
}

// framing returns the origins whose pages may frame /embed/run now.
func (m *mint) framing() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	out := make([]string, 0, len(m.frames))
	for origin := range m.frames {
		out = append(out, origin)
	}
	return out
}

// find returns the ticket of the secret when it is good for the origin. own
// says that the origin is the server's.
func (m *mint) find(secret, origin string, own bool) (*runTicket, error) {
	const op = "gateway.mint"
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	t := m.m[sha256.Sum256([]byte(secret))]
	switch {
	case t == nil || !m.now().Before(t.expires) && len(t.running) == 0:
		return nil, fault.New(fault.Unauthenticated, op, "the run ticket is not valid, or has expired")
	case t.embed && !own, !t.embed && t.origin != strings.ToLower(origin):
		return nil, fault.New(fault.PermissionDenied, op, "the run ticket was made for pages of another origin")
	}
	return t, nil
}

// revoke ends the tickets of that id whose maker is the same.
func (m *mint) revoke(id string, who node.Principal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, t := range m.m {
		if t.id == id && t.who.Tenant == who.Tenant && t.who.Subject == who.Subject {
			m.remove(key)
			return nil
		}
	}
	return fault.New(fault.NotFound, "gateway.mint", "there is no such ticket")
}

// begin uses the ticket once and holds a place among its runs.
func (t *runTicket) begin() (*runPlace, error) {
	const op = "gateway.mint"
	m := t.mint
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if now.Sub(t.minute) >= time.Minute {
		t.minute, t.begun = now, 0
	}
	switch {
	case !now.Before(t.expires):
		return nil, fault.New(fault.Unauthenticated, op, "the run ticket has expired")
	case t.left == 0:
		return nil, fault.New(fault.Unauthenticated, op, "the run ticket is used up")
	case len(t.running) >= t.limits.Concurrent:
		return nil, &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: 2, Message: "as many runs as the run ticket allows go on"}
	case t.begun >= t.limits.PerMinute:
		return nil, &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: int(time.Minute-now.Sub(t.minute))/int(time.Second) + 1, Message: "as many runs as the run ticket allows in a minute have begun"}
	}
	t.left--
	t.begun++
	p := &runPlace{t: t}
	// Until the run has a session, its place is under a name that is none.
	p.session = "?" + newKey()
	t.running[p.session] = struct{}{}
	return p, nil
}

// has reports whether the session is that of one of the ticket's runs.
func (t *runTicket) has(session string) bool {
	t.mint.mu.Lock()
	defer t.mint.mu.Unlock()
	_, ok := t.running[session]
	return ok
}

// runPlace is a run's place among those of its ticket; nil is a run without.
type runPlace struct {
	t       *runTicket
	session string
}

// name says which session the run has.
func (p *runPlace) name(session string) {
	if p == nil {
		return
	}
	p.t.mint.mu.Lock()
	defer p.t.mint.mu.Unlock()
	delete(p.t.running, p.session)
	p.session = session
	p.t.running[session] = struct{}{}
}

// leave gives the place back.
func (p *runPlace) leave() {
	if p == nil {
		return
	}
	p.t.mint.mu.Lock()
	defer p.t.mint.mu.Unlock()
	delete(p.t.running, p.session)
	// It may be the last that has kept an expired ticket.
	p.t.mint.soonest = time.Time{}
	p.t.mint.sweep()
}
