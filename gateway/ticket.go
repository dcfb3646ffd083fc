package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/node"
)

const (
	// ticketLife is how long a ticket can be used, once.
	ticketLife = 30 * time.Second
	// ticketPrefix marks the ticket among a handshake's subprotocols. A
	// browser can set no other header, and a URL would end up in logs.
	ticketPrefix = "ticket."
)

// ticketStore holds tickets that nobody has used yet, by their hashes.
type ticketStore struct {
	limit int
	life  time.Duration

	mu sync.Mutex // guards all below
	m  map[[sha256.Size]byte]ticket
}

type ticket struct {
	who node.Principal
	// origin is that of the page which asked, empty for any; or the port that
	// it opens.
	origin  string
	expires time.Time
}

func newTicketStore(limit int, life time.Duration) *ticketStore {
	return &ticketStore{limit: limit, life: life, m: make(map[[sha256.Size]byte]ticket)}
}

// issue returns a new ticket: 256 random bits.
func (s *ticketStore) issue(who node.Principal, origin string) (string, error) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	secret := base64.RawURLEncoding.EncodeToString(raw[:])
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
			return "", &fault.Error{Kind: fault.Exhausted, Op: "gateway.ticket", RetryAfter: int(s.life / time.Second), Message: "too many tickets are unused"}
		}
	}
	s.m[sha256.Sum256([]byte(secret))] = ticket{who: who, origin: origin, expires: now.Add(s.life)}
	return secret, nil
}

// take uses a ticket up, and says what it was issued for.
func (s *ticketStore) take(secret string) (who node.Principal, purpose string, ok bool) {
	key := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.m[key]
	delete(s.m, key)
	return t.who, t.origin, ok && !time.Now().After(t.expires)
}

// redeem uses a ticket up, whether or not it is still good.
func (s *ticketStore) redeem(secret, origin string) (node.Principal, bool) {
	key := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.m[key]
	delete(s.m, key)
	if !ok || time.Now().After(t.expires) || t.origin != "" && t.origin != origin {
		return node.Principal{}, false
	}
	return t.who, true
}
