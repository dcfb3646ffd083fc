package auth

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

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A run token ("run ticket" in the HTTP API) lets the pages of one origin run code and nothing
// else. The page's own server requests it with its credentials and passes it to the page.

// RunTokenPrefix distinguishes a run token from other bearer tokens.
const RunTokenPrefix = "sgr_"

const (
	defaultRunTokenLife = 5 * time.Minute
	maxRunTokenLife     = time.Hour
	maxRunTokenUses     = 1000
	maxRunTokenAtOnce   = 16
	maxRunTokenRate     = 600
	// purposeRun is the purpose of a sealed run token; its id follows.
	purposeRun = "run ticket "
	// idBytes is the part of the secret's hash that is the id of a token.
	idBytes = 8
	// leaveTimeout bounds how long the end of a run waits until its place is given back. A place
	// that was not given back is free after its life.
	leaveTimeout = time.Second
)

// RunBounds are the limits of every run, with or without a token.
type RunBounds struct {
	// Timeout is the longest timeout of a run.
	Timeout time.Duration
	// Output and DefaultOutput are the largest and the default limit of the
	// output of a run, in bytes.
	Output, DefaultOutput int64
	// Life is how long a run with the longest timeout can exist.
	Life time.Duration
}

// RunLimits bound the runs of a token. The zero value of each field means its default.
type RunLimits struct {
	// TimeoutMS is the longest timeout of a run; default 60 s, at most 10 min.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// MaxOutputBytes is the most output of a run; default 1 MiB, at most 64 MiB.
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
	// Concurrent is the number of simultaneous runs; default 2, at most 16.
	Concurrent int `json:"concurrent,omitempty"`
	// PerMinute is the largest number of runs that begin in any minute; default 30, at most 600.
	PerMinute int `json:"per_minute,omitempty"`
}

// RunTokenSpec describes a run token to issue.
type RunTokenSpec struct {
	// Origin is the origin of the pages, in lower case. The caller has checked it.
	Origin string
	// Embed is set for a token of the frame /embed/run on pages of the origin. Its requests come
	// from the server's own origin.
	Embed bool
	// Uses is the number of runs; default 1, at most 1000.
	Uses int
	// ExpiresSeconds is the time until the token expires; default 5 min, at most 1 h.
	ExpiresSeconds int
	Limits         RunLimits
	// Binding is checked.
	Binding RunBinding
}

// complete checks a spec and fills in the defaults.
func (s *RunTokenSpec) complete(b RunBounds) error {
	const op = "auth.run_token"
	l := &s.Limits
	for _, c := range []struct {
		field      string
		value, max int64
	}{
		{"uses", int64(s.Uses), maxRunTokenUses},
		{"expires_seconds", int64(s.ExpiresSeconds), int64(maxRunTokenLife / time.Second)},
		{"limits.timeout_ms", l.TimeoutMS, b.Timeout.Milliseconds()},
		{"limits.max_output_bytes", l.MaxOutputBytes, b.Output},
		{"limits.concurrent", int64(l.Concurrent), maxRunTokenAtOnce},
		{"limits.per_minute", int64(l.PerMinute), maxRunTokenRate},
	} {
		if c.value < 0 || c.value > c.max {
			return fault.Invalid(op, c.field, "the value must be from 1 to %d", c.max)
		}
	}
	orDefault(&s.Uses, 1)
	orDefault(&s.ExpiresSeconds, int(defaultRunTokenLife/time.Second))
	orDefault(&l.TimeoutMS, 60_000)
	orDefault(&l.MaxOutputBytes, b.DefaultOutput)
	orDefault(&l.Concurrent, 2)
	orDefault(&l.PerMinute, 30)
	return nil
}

// RunToken is an issued run token. It does not change: the store counts its
// uses.
type RunToken struct {
	ID string `json:"id"`
	// Hash is the SHA-256 of the secret. The id is its beginning.
	Hash   []byte            `json:"hash"`
	Who    noderpc.Principal `json:"who"`
	Until  time.Time         `json:"until,omitzero"` // a field of Who that its JSON lacks
	Origin string            `json:"origin"`
	Embed  bool              `json:"embed,omitempty"`
	Limits RunLimits         `json:"limits"`
	// Binding is the session of the runs.
	Binding RunBinding `json:"binding,omitzero"`
}

// RunTokenIssuer issues and finds run tokens.
type RunTokenIssuer struct {
	limit   int
	bounds  RunBounds
	store   RunTokenStore
	origins RunTokenOrigins
	// keys seals the values in a shared store. It is nil for a store in memory.
	keys *KeyCache
	// shares bounds the tokens that a tenant gets in an hour.
	shares *tenantPace
}

// newRunTokenIssuer returns an issuer of at most limit tokens. A nil store keeps them in memory.
func newRunTokenIssuer(shared SharedRunTokenStore, keys *KeyCache, bounds RunBounds,
	limit int,
) *RunTokenIssuer {
	m := &RunTokenIssuer{
		limit: limit, bounds: bounds,
		shares: newTenantPace(tenantlimit.Lookup(tenantlimit.RunTokens).Scale(limit), time.Hour),
	}
	if shared == nil {
		memory := local.NewRunTokenStore(nil)
		m.store, m.origins = memory, memory
		return m
	}
	m.store, m.origins, m.keys = shared, shared, keys
	return m
}

// runTokenID returns the public id of the token with that secret's hash.
func runTokenID(hash [sha256.Size]byte) string { return hex.EncodeToString(hash[:idBytes]) }

// Issue returns a new token and its secret, 256 random bits. It fills in the defaults of the spec.
// The error is Exhausted if too many tokens are valid.
func (m *RunTokenIssuer) Issue(ctx context.Context, who noderpc.Principal,
	spec *RunTokenSpec,
) (*RunToken, string, error) {
	const op = "auth.run_token"
	if err := spec.complete(m.bounds); err != nil {
		return nil, "", err
	}
	if err := m.shares.allow(op, who.Tenant); err != nil {
		return nil, "", err
	}
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	secret := RunTokenPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	hash := sha256.Sum256([]byte(secret))
	t := &RunToken{
		ID: runTokenID(hash), Hash: hash[:], Who: who, Until: who.Until,
		Origin: spec.Origin, Embed: spec.Embed, Limits: spec.Limits, Binding: spec.Binding,
	}
	life := time.Duration(spec.ExpiresSeconds) * time.Second
	value, err := m.encode(t, life)
	if err != nil {
		return nil, "", err
	}
	err = m.store.Add(ctx, cluster.RunToken{
		ID: t.ID, Data: value, Origin: t.Origin, Embed: t.Embed, Life: life,
		Uses: spec.Uses, Concurrent: t.Limits.Concurrent, PerMinute: t.Limits.PerMinute,
	}, m.limit)
	if fault.Is(err, fault.Exhausted) {
		err = &fault.Error{
			Kind: fault.Exhausted, Op: op, RetryAfter: 30,
			Message: "too many run tickets are valid at once",
		}
	}
	if err != nil {
		return nil, "", err
	}
	return t, secret, nil
}

// encode returns the value that the store keeps for a token.
func (m *RunTokenIssuer) encode(t *RunToken, life time.Duration) ([]byte, error) {
	if m.keys == nil {
		value, err := json.Marshal(t)
		return value, fault.Wrap(fault.Internal, "auth.run_token", err)
	}
	// A run can receive input after its token has expired.
	text, err := seal(m.keys, purposeRun+t.ID, life+m.bounds.Life, *t)
	return []byte(text), err
}

// read returns the token of an id that is valid or has running runs. nil means that there is none.
func (m *RunTokenIssuer) read(ctx context.Context, id string) (*RunToken, error) {
	value, err := m.store.Find(ctx, id)
	if err != nil || value == nil {
		return nil, err
	}
	var t RunToken
	if m.keys != nil {
		var ok bool
		if t, ok, err = unseal[RunToken](m.keys, purposeRun+id, string(value)); err != nil || !ok {
			return nil, err
		}
	} else if err := json.Unmarshal(value, &t); err != nil {
		return nil, fault.Wrap(fault.Internal, "auth.run_token", err)
	}
	t.Who.Until = t.Until
	return &t, nil
}

// Names reports whether there is a token for the origin that has neither expired nor been revoked.
// A token without remaining uses counts, so that its page can read the error.
func (m *RunTokenIssuer) Names(ctx context.Context, origin string) (bool, error) {
	return m.origins.Names(ctx, strings.ToLower(origin))
}

// Framing returns the origins whose pages may frame /embed/run now.
func (m *RunTokenIssuer) Framing(ctx context.Context) ([]string, error) {
	return m.origins.Framing(ctx)
}

// Find returns the token of a secret if it is valid for the origin. own is set if the origin is the
// server's.
func (m *RunTokenIssuer) Find(ctx context.Context, secret, origin string,
	own bool,
) (*RunToken, error) {
	const op = "auth.run_token"
	hash := sha256.Sum256([]byte(secret))
	t, err := m.read(ctx, runTokenID(hash))
	switch {
	case err != nil:
		return nil, err
	case t == nil || subtle.ConstantTimeCompare(t.Hash, hash[:]) != 1:
		return nil, fault.New(fault.Unauthenticated, op,
			"the run ticket is not valid, or has expired")
	case t.Embed && !own, !t.Embed && t.Origin != strings.ToLower(origin):
		return nil, fault.New(fault.PermissionDenied, op,
			"the run ticket was issued for pages of another origin")
	}
	return t, nil
}

// Revoke ends the token of an id if the same principal has issued it.
func (m *RunTokenIssuer) Revoke(ctx context.Context, id string, who noderpc.Principal) error {
	none := fault.New(fault.NotFound, "auth.run_token", "no such ticket")
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
	ended, err := m.store.End(ctx, id, t.Origin)
	if err == nil && !ended {
		err = none
	}
	return err
}

// Begin uses the token once and reserves a place among its runs, for at most life.
func (m *RunTokenIssuer) Begin(ctx context.Context, t *RunToken,
	life time.Duration,
) (*RunPlace, error) {
	const op = "auth.run_token"
	p := &RunPlace{store: m.store, token: t, name: "run-" + rand.Text()}
	verdict, wait, err := m.store.Begin(ctx, t.ID, t.Origin, p.name, life)
	if err != nil {
		return nil, err
	}
	switch verdict {
	case cluster.RunTokenAccepted:
		return p, nil
	case cluster.RunTokenExpired, cluster.RunTokenUnknown:
		return nil, fault.New(fault.Unauthenticated, op, "the run ticket has expired")
	case cluster.RunTokenUsedUp:
		return nil, fault.New(fault.Unauthenticated, op, "the run ticket is used up")
	case cluster.RunTokenBusy:
		return nil, &fault.Error{
			Kind: fault.Exhausted, Op: op, RetryAfter: seconds(wait),
			Message: "the run ticket has as many runs as it allows at once",
		}
	}
	return nil, &fault.Error{
		Kind: fault.Exhausted, Op: op, RetryAfter: seconds(wait),
		Message: "the run ticket has begun as many runs as it allows in a minute",
	}
}

// RunPlace is the place of a run among those of its token. A nil *RunPlace is the place of a run
// without a token.
type RunPlace struct {
	store RunTokenStore
	token *RunToken
	name  string
	once  sync.Once
}

// Leave gives the place back. It may be called more than once.
func (p *RunPlace) Leave() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		// otherwise the place ends after its life
		_ = p.store.Leave(ctx, p.token.ID, p.token.Origin, p.name)
	})
}
