package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
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
	// purposeRun is what a run ticket is sealed for, with its id behind it.
	purposeRun = "run ticket "
	// idBytes is how much of its secret's hash names a ticket.
	idBytes = 8
	// leaveLimit is how long giving a place back may keep the end of a run: one
	// that could not be given back ends by itself.
	leaveLimit = time.Second
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
	orDefault(&l.MaxOutputBytes, run.DefaultOutput)
	orDefault(&l.Concurrent, 2)
	orDefault(&l.PerMinute, 30)
	return l
}

// runTicket is one that was minted. It does not change: what is counted is in
// the book.
type runTicket struct {
	ID string `json:"id"`
	// Hash is that of the secret, of which the id is the beginning.
	Hash   []byte            `json:"hash"`
	Who    noderpc.Principal `json:"who"`
	Until  time.Time         `json:"until,omitzero"` // Who's, which says nothing of it
	Origin string            `json:"origin"`
	// Embed is set for a ticket that is used by the frame /embed/run, on pages
	// of the origin: requests then come from the server's own.
	Embed  bool      `json:"embed,omitempty"`
	Limits runLimits `json:"limits"`
}

// name is that of the sessions of the ticket's runs. The node keeps it, so that
// any gateway knows whose run a session is.
func (t *runTicket) name() string { return run.SessionName + " " + t.ID }

// mint makes run tickets, and knows them again by the book.
type mint struct {
	limit   int
	book    Book
	origins Origins
	// seal and open guard what lies where others might write; nil for nothing.
	seal func(id string, t runTicket, life time.Duration) (string, error)
	open func(id, text string) (runTicket, bool, error)
}

// newMint returns that of a gateway; book is nil for one that is alone.
func newMint(g *Gateway, book ClusterBook) *mint {
	m := &mint{limit: g.cfg.Limits.Tickets}
	if book == nil {
		local := newLocalBook()
		m.book, m.origins = local, local
		return m
	}
	m.book, m.origins = book, book
	m.seal = func(id string, t runTicket, life time.Duration) (string, error) {
		// Its runs can be fed when it has expired.
		return sealFor(g, purposeRun+id, life+g.runs.MaxLife(run.MaxTimeout), t)
	}
	m.open = func(id, text string) (runTicket, bool, error) { return openSealed[runTicket](g, purposeRun+id, text) }
	return m
}

// ticketID is the public name of the ticket with that secret.
func ticketID(hash [sha256.Size]byte) string { return hex.EncodeToString(hash[:idBytes]) }

// issue returns the secret of a new ticket, 256 random bits, whose fields the
// caller has checked.
func (m *mint) issue(ctx context.Context, t *runTicket, uses int, life time.Duration) (string, error) {
	const op = "gateway.mint"
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	secret := runPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	hash := sha256.Sum256([]byte(secret))
	t.ID, t.Hash, t.Until = ticketID(hash), hash[:], t.Who.Until
	var thing []byte
	var err error
	if m.seal != nil {
		var text string
		text, err = m.seal(t.ID, *t, life)
		thing = []byte(text)
	} else {
		thing, err = json.Marshal(t)
	}
	if err != nil {
		return "", err
	}
	err = m.book.Add(ctx, tenant.Grant{
		ID: t.ID, Thing: thing, Origin: t.Origin, Embed: t.Embed, Life: life,
		Uses: uses, AtOnce: t.Limits.Concurrent, PerMinute: t.Limits.PerMinute,
	}, m.limit)
	if fault.Is(err, fault.Exhausted) {
		err = &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: 30, Message: "too many run tickets are out"}
	}
	return secret, err
}

// read returns the ticket of an id that is good or has runs that go on; nil is
// none.
func (m *mint) read(ctx context.Context, id string) (*runTicket, error) {
	thing, err := m.book.Find(ctx, id)
	if err != nil || thing == nil {
		return nil, err
	}
	var t runTicket
	if m.open != nil {
		var ok bool
		if t, ok, err = m.open(id, string(thing)); err != nil || !ok {
			return nil, err
		}
	} else if err := json.Unmarshal(thing, &t); err != nil {
		return nil, fault.Wrap(fault.Internal, "gateway.mint", err)
	}
	t.Who.Until = t.Until
	return &t, nil
}

// names reports whether a ticket was minted for the origin and has neither
// expired nor been revoked. One that is used up counts: its page is told so.
func (m *mint) names(ctx context.Context, origin string) (bool, error) {
	return m.origins.Names(ctx, strings.ToLower(origin))
}

// framing returns the origins whose pages may frame /embed/run now.
func (m *mint) framing(ctx context.Context) ([]string, error) { return m.origins.Framing(ctx) }

// find returns the ticket of the secret when it is good for the origin. own
// says that the origin is the server's.
func (m *mint) find(ctx context.Context, secret, origin string, own bool) (*runTicket, error) {
	const op = "gateway.mint"
	hash := sha256.Sum256([]byte(secret))
	t, err := m.read(ctx, ticketID(hash))
	switch {
	case err != nil:
		return nil, err
	case t == nil || subtle.ConstantTimeCompare(t.Hash, hash[:]) != 1:
		return nil, fault.New(fault.Unauthenticated, op, "the run ticket is not valid, or has expired")
	case t.Embed && !own, !t.Embed && t.Origin != strings.ToLower(origin):
		return nil, fault.New(fault.PermissionDenied, op, "the run ticket was made for pages of another origin")
	}
	return t, nil
}

// revoke ends the tickets of that id whose maker is the same.
func (m *mint) revoke(ctx context.Context, id string, who noderpc.Principal) error {
	none := fault.New(fault.NotFound, "gateway.mint", "there is no such ticket")
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != idBytes {
		return none
	}
	t, err := m.read(ctx, id)
	if err != nil {
		return err
	}
	if t == nil || t.Who.Tenant != who.Tenant || t.Who.Subject != who.Subject {
		return none
	}
	if there, err := m.book.End(ctx, id, t.Origin); err != nil || !there {
		if err == nil {
			err = none
		}
		return err
	}
	return nil
}

// begin uses the ticket once and holds a place among its runs, for life at most.
func (m *mint) begin(ctx context.Context, t *runTicket, life time.Duration) (*runPlace, error) {
	const op = "gateway.mint"
	p := &runPlace{mint: m, ticket: t, name: newKey()}
	verdict, wait, err := m.book.Begin(ctx, t.ID, t.Origin, p.name, life)
	if err != nil {
		return nil, err
	}
	switch verdict {
	case tenant.Begun:
		return p, nil
	case tenant.Over, tenant.Unknown:
		return nil, fault.New(fault.Unauthenticated, op, "the run ticket has expired")
	case tenant.Used:
		return nil, fault.New(fault.Unauthenticated, op, "the run ticket is used up")
	case tenant.Busy:
		return nil, &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: seconds(wait), Message: "as many runs as the run ticket allows go on"}
	}
	return nil, &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: seconds(wait), Message: "as many runs as the run ticket allows in a minute have begun"}
}

// runPlace is a run's place among those of its ticket; nil is a run without.
type runPlace struct {
	mint   *mint
	ticket *runTicket
	name   string
	once   sync.Once
}

// leave gives the place back.
func (p *runPlace) leave() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
		defer cancel()
		_ = p.mint.book.Leave(ctx, p.ticket.ID, p.ticket.Origin, p.name) // else it ends by its life
	})
}
