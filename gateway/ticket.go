package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	bucket "golang.org/x/time/rate"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
)

const (
	// ticketLife is how long a ticket can be used, once.
	ticketLife = 30 * time.Second
	// ticketPrefix marks the ticket among a handshake's subprotocols. A
	// browser can set no other header, and a URL would end up in logs.
	ticketPrefix = "ticket."
)

// Shelf holds small things, each for its own time and to be taken once: tickets
// that nobody has used yet. The gateways of a cluster share one.
type Shelf interface {
	// Put lays something down under a name that nothing else has.
	Put(ctx context.Context, name string, thing []byte, life time.Duration) error
	// Take takes what lies under the name; of all who try one gets it. nil is
	// nothing.
	Take(ctx context.Context, name string) ([]byte, error)
}

// ticketStore issues tickets of one kind. They lie on the shelf by their
// hashes.
type ticketStore struct {
	shelf Shelf
	kind  string
	life  time.Duration
	// pace bounds what lies on a shelf that does not: nil where it does.
	pace *bucket.Limiter
	// seal and open guard what lies where others might write; nil for nothing.
	seal func(kind string, t ticket, life time.Duration) (string, error)
	open func(kind, text string) (ticket, bool, error)
}

type ticket struct {
	Who   noderpc.Principal `json:"who"`
	Until time.Time         `json:"until,omitzero"` // Who's, which says nothing of it
	Link  string            `json:"link,omitempty"` // Who's, which says nothing of it either
	// Origin is that of the page which asked, empty for any; or the port that
	// it opens.
	Origin string `json:"origin,omitempty"`
}

// name is the ticket's on the shelf. The kind is in it: one that is taken for
// another's opens nothing.
func (s *ticketStore) name(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return s.kind + ":" + hex.EncodeToString(sum[:])
}

// issue returns a new ticket: 256 random bits.
func (s *ticketStore) issue(ctx context.Context, who noderpc.Principal, origin string) (string, error) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	secret := base64.RawURLEncoding.EncodeToString(raw[:])
	if s.pace != nil && !s.pace.Allow() {
		return "", errTickets(s.life)
	}
	name, t := s.name(secret), ticket{Who: who, Until: who.Until, Link: who.Link, Origin: origin}
	var thing []byte
	var err error
	if s.seal != nil {
		var text string
		text, err = s.seal(name, t, s.life)
		thing = []byte(text)
	} else {
		thing, err = json.Marshal(t)
	}
	if err != nil {
		return "", err
	}
	return secret, s.shelf.Put(ctx, name, thing, s.life)
}

// take uses a ticket up, and says what it was issued for. The error is that of
// a shelf that cannot be reached: then nobody gets in with a ticket.
func (s *ticketStore) take(ctx context.Context, secret string) (who noderpc.Principal, purpose string, ok bool, err error) {
	name := s.name(secret)
	thing, err := s.shelf.Take(ctx, name)
	if err != nil || thing == nil {
		return who, "", false, err
	}
	var t ticket
	if s.open != nil {
		if t, ok, err = s.open(name, string(thing)); err != nil || !ok {
			return who, "", false, err
		}
	} else if err := json.Unmarshal(thing, &t); err != nil {
		return who, "", false, fault.Wrap(fault.Internal, "gateway.ticket", err)
	}
	t.Who.Until, t.Who.Link = t.Until, t.Link
	return t.Who, t.Origin, true, nil
}

// redeem uses a ticket up, whether or not it is still good.
func (s *ticketStore) redeem(ctx context.Context, secret, origin string) (who noderpc.Principal, ok bool, err error) {
	who, from, ok, err := s.take(ctx, secret)
	if !ok || from != "" && from != origin {
		return noderpc.Principal{}, false, err
	}
	return who, true, nil
}

func errTickets(life time.Duration) error {
	return &fault.Error{Kind: fault.Exhausted, Op: "gateway.ticket", RetryAfter: int(life / time.Second), Message: "too many tickets are unused"}
}

// localShelf is the shelf of a gateway that is alone.
type localShelf struct {
	limit int

	mu sync.Mutex // guards all below; leaf
	m  map[string]shelved
}

type shelved struct {
	thing   []byte
	expires time.Time
}

func newLocalShelf(limit int) *localShelf {
	return &localShelf{limit: limit, m: make(map[string]shelved)}
}

// Put is Shelf's. It refuses what is more than the limit.
func (s *localShelf) Put(_ context.Context, name string, thing []byte, life time.Duration) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.m) >= s.limit {
		for k, t := range s.m {
			if now.After(t.expires) {
				delete(s.m, k)
			}
		}
		if len(s.m) >= s.limit {
			return errTickets(life)
		}
	}
	s.m[name] = shelved{thing, now.Add(life)}
	return nil
}

// Take is Shelf's.
func (s *localShelf) Take(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.m[name]
	delete(s.m, name)
	if !ok || time.Now().After(t.expires) {
		return nil, nil
	}
	return t.thing, nil
}
