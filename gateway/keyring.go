package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/node"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
	"github.com/sandgate/sandgate/tenant"
)

const (
	// firstKeyring and lastKeyring are the pauses before a gateway asks again
	// for the keys that it could not get. They double in between.
	firstKeyring = 20 * time.Millisecond
	lastKeyring  = 2 * time.Second
	// keyringWait is how long a change of keys may take to come back to the
	// gateway over which it was made.
	keyringWait = 5 * time.Second
)

// keyring is what a gateway knows of keys: the node's table, which the node
// sends anew with each change. While the node is away the last one counts;
// whoever is let in by it can do nothing then.
type keyring struct {
	node Node
	log  *slog.Logger

	mu      sync.Mutex // guards all below; leaf
	index   *tenant.Index
	changed chan struct{} // closed at the next change
}

func newKeyring(n Node, log *slog.Logger) *keyring {
	return &keyring{node: n, log: log, changed: make(chan struct{})}
}

// get returns the present table, nil before the first, and a channel that is
// closed when it is no longer that.
func (k *keyring) get() (*tenant.Index, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.index, k.changed
}

// follow keeps the table until ctx ends. told is called after each change.
func (k *keyring) follow(ctx context.Context, told func()) {
	pause := firstKeyring
	for {
		began := time.Now()
		err := k.watch(ctx, told)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastKeyring {
			pause = firstKeyring
		}
		k.log.Debug("the node tells nothing of keys", "error", err, "again_in", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, lastKeyring)
	}
}

// watch asks a node for its table and takes what it sends until it ends.
func (k *keyring) watch(ctx context.Context, told func()) error {
	opening, cancel := context.WithTimeout(ctx, keyringWait)
	defer cancel()
	link, err := k.node.Open(opening, gatewayItself())
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }()
	defer context.AfterFunc(ctx, func() { _ = link.Close() })()
	var t tenant.Table
	if err := ask(link, 1, protocol.OpKeyWatch, 0, struct{}{}, &t, nil); err != nil {
		return err
	}
	for {
		k.set(t)
		told()
		if t, err = nextTable(link); err != nil {
			return err
		}
	}
}

func nextTable(link Link) (t tenant.Table, err error) {
	for {
		f, err := next(link)
		if err != nil {
			return t, err
		}
		var news protocol.Reply
		if f.Type != stream.Control || json.Unmarshal(f.Body, &news) != nil || news.Event != protocol.EventKeys {
			continue
		}
		return t, fault.Wrap(fault.Malformed, "gateway.keys", json.Unmarshal(news.Params, &t))
	}
}

func (k *keyring) set(t tenant.Table) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.index = tenant.NewIndex(t)
	close(k.changed)
	k.changed = make(chan struct{})
}

// await returns once the table has the version, so that who made a change
// meets it with the next request.
func (k *keyring) await(ctx context.Context, version uint64) error {
	ctx, cancel := context.WithTimeout(ctx, keyringWait)
	defer cancel()
	for {
		x, changed := k.get()
		if x != nil && x.Version >= version {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &fault.Error{Kind: fault.Unavailable, Op: "gateway.keys", RetryAfter: 1, Message: "the keys have changed, but this gateway was not told of it yet", Err: ctx.Err()}
		}
	}
}

// open returns whom a secret speaks for.
func (k *keyring) open(secret string) (node.Principal, error) {
	const op = "gateway.authenticate"
	x, _ := k.get()
	if x == nil {
		return node.Principal{}, &fault.Error{Kind: fault.Unavailable, Op: op, RetryAfter: 1, Message: "the node has not told of any keys yet"}
	}
	key, ok := x.Open(secret)
	if !ok {
		return node.Principal{}, fault.New(fault.Unauthenticated, op, "the token is not valid")
	}
	return speaker(key), nil
}

func speaker(k tenant.Key) node.Principal {
	return node.Principal{Tenant: k.Tenant, Subject: k.Subject(), Scopes: k.Role.Scopes(), Until: k.Expires}
}

// current reports whether what somebody came with is good still: the key, or
// the sign-in. Other credentials are looked at when they are used.
func (k *keyring) current(who node.Principal) bool {
	if !who.Until.IsZero() && time.Now().After(who.Until) {
		return false
	}
	id, ok := tenant.KeyOf(strings.TrimPrefix(who.Subject, viewSubject))
	if !ok {
		return true
	}
	x, _ := k.get()
	if x == nil {
		return false
	}
	key, ok := x.Key(id)
	return ok && key.Tenant == who.Tenant
}

// expel closes the WebSockets of keys that have been revoked or have expired.
func (g *Gateway) expel() {
	g.mu.Lock()
	var out []*relay
	for r := range g.relays {
		if !g.keys.current(r.who) {
			out = append(out, r)
		}
	}
	g.mu.Unlock()
	for _, r := range out {
		go r.fail(errRevoked())
	}
}

func errRevoked() error {
	return fault.New(fault.Unauthenticated, "gateway.key", "the credentials were revoked, or have expired")
}
