package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	bucket "golang.org/x/time/rate"

	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// TicketLife is how long a ticket can be used, once.
	TicketLife = 30 * time.Second
	// TicketPrefix marks the ticket among the subprotocols of a handshake. A
	// browser can set no other header there, and a URL would appear in logs.
	TicketPrefix = "ticket."
)

// OneTimeStore stores small values that can be taken once: unused tickets. The gateways of a
// cluster share one.
type OneTimeStore interface {
	// Put stores a value under a name that is not in use.
	Put(ctx context.Context, name string, value []byte, life time.Duration) error
	// Take removes and returns a value. If several callers take it, one gets it. nil means that
	// there is none.
	Take(ctx context.Context, name string) ([]byte, error)
}

// Tickets issues and redeems the tickets of one kind. A ticket can be used
// once, within TicketLife. The store knows only hashes of tickets.
type Tickets struct {
	store OneTimeStore
	kind  string
	life  time.Duration
	// keys seals the values in a shared store. It is nil for a store in memory.
	keys *KeyCache
	// pace bounds the number of tickets in a shared store. It is nil for a store with its own
	// limit.
	pace *bucket.Limiter
	// shares bounds the tickets that a tenant gets within the life of a ticket.
	shares *tenantPace
}

// newTickets returns the tickets of a kind. A nil store keeps at most limit
// tickets in memory.
func newTickets(kind string, shared OneTimeStore, keys *KeyCache, limit int) *Tickets {
	shares := newTenantPace(tenantlimit.Lookup(tenantlimit.Tickets).Scale(limit), TicketLife)
	if shared == nil {
		return &Tickets{
			store: local.NewOneTimeStore(limit), kind: kind, life: TicketLife, shares: shares,
		}
	}
	return &Tickets{
		store: shared, kind: kind, life: TicketLife, keys: keys, shares: shares,
		// At most limit tickets are issued within the life of a ticket, and twice as many in the
		// first such period.
		pace: bucket.NewLimiter(bucket.Limit(float64(limit)/TicketLife.Seconds()), limit),
	}
}

// ticket is the stored part of a ticket.
type ticket struct {
	Who   noderpc.Principal `json:"who"`
	Until time.Time         `json:"until,omitzero"` // a field of Who that its JSON lacks
	Link  string            `json:"link,omitempty"` // a field of Who that its JSON lacks
	// Purpose limits the use: the origin of the page that requested the ticket, or the port that
	// the ticket opens. Empty means no limit.
	Purpose string `json:"origin,omitempty"`
}

// name returns the name of a ticket in the store. It includes the kind: a ticket of one kind is not
// valid as another.
func (s *Tickets) name(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return s.kind + ":" + hex.EncodeToString(sum[:])
}

// sealPurpose binds a sealed ticket to its name in the store.
func (s *Tickets) sealPurpose(name string) string { return "ticket " + name }

// Issue returns a new ticket, 256 random bits, for a purpose. It fails with
// Exhausted if too many tickets are unused.
func (s *Tickets) Issue(ctx context.Context, who noderpc.Principal,
	purpose string,
) (string, error) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	secret := base64.RawURLEncoding.EncodeToString(raw[:])
	if err := s.shares.allow("auth.ticket", who.Tenant); err != nil {
		return "", err
	}
	if s.pace != nil && !s.pace.Allow() {
		return "", errTickets(s.life)
	}
	name, t := s.name(secret), ticket{Who: who, Until: who.Until, Link: who.Link, Purpose: purpose}
	var value []byte
	var err error
	if s.keys != nil {
		var text string
		text, err = seal(s.keys, s.sealPurpose(name), s.life, t)
		value = []byte(text)
	} else {
		value, err = json.Marshal(t)
	}
	if err != nil {
		return "", err
	}
	err = s.store.Put(ctx, name, value, s.life)
	if fault.Is(err, fault.Exhausted) {
		err = errTickets(s.life)
	}
	return secret, err
}

// Take uses a ticket up. It returns the principal and the purpose that the ticket was issued for.
// The error is set if the store is unreachable: then no ticket can be used.
func (s *Tickets) Take(ctx context.Context,
	secret string,
) (who noderpc.Principal, purpose string, ok bool, err error) {
	name := s.name(secret)
	value, err := s.store.Take(ctx, name)
	if err != nil || value == nil {
		return who, "", false, err
	}
	var t ticket
	if s.keys != nil {
		if t, ok, err = unseal[ticket](s.keys, s.sealPurpose(name), string(value)); err != nil ||
			!ok {
			return who, "", false, err
		}
	} else if err := json.Unmarshal(value, &t); err != nil {
		return who, "", false, fault.Wrap(fault.Internal, "auth.ticket", err)
	}
	t.Who.Until, t.Who.Link = t.Until, t.Link
	return t.Who, t.Purpose, true, nil
}

// Redeem uses a ticket up, valid or not, and reports whether it is valid for
// the origin.
func (s *Tickets) Redeem(ctx context.Context,
	secret, origin string,
) (who noderpc.Principal, ok bool, err error) {
	who, from, ok, err := s.Take(ctx, secret)
	if !ok || from != "" && from != origin {
		return noderpc.Principal{}, false, err
	}
	return who, true, nil
}

func errTickets(life time.Duration) error {
	return &fault.Error{
		Kind: fault.Exhausted, Op: "auth.ticket", RetryAfter: int(life / time.Second),
		Message: "too many tickets are unused",
	}
}
