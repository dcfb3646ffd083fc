package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

const (
	// firstKeyring and lastKeyring are the pauses before a gateway asks again
	// for the keys that it could not get. They double in between.
	firstKeyring = 20 * time.Millisecond
	lastKeyring  = 2 * time.Second
	// keyringWait is how long a change of keys may take to come back to the
	// gateway over which it was made.
	keyringWait = 5 * time.Second
	// keyringSilence is how long a node of a cluster may say nothing, which
	// speaks every 2 s, before another is asked.
	keyringSilence = 6 * time.Second
)

// keyring is what a gateway knows of keys: the node's table, which the node
// sends anew with each change. While the node is away the last one counts;
// whoever is let in by it can do nothing then. In a cluster it counts for the
// time that the node has named: another gateway may have revoked a key.
type keyring struct {
	node Node
	log  *slog.Logger

	mu      sync.Mutex // guards all below; leaf
	index   *tenant.Index
	changed chan struct{} // closed at the next change
	// away says that keys may have changed without this gateway's being told.
	away  bool
	grace time.Duration // 0 for ever
	until time.Time     // when the keys stop to count; zero for never
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
	var news tenant.News
	if err := nodecall.Call(link, 1, protocol.OpKeyWatch, 0, struct{}{}, &news, nil); err != nil {
		return err
	}
	defer k.cut()
	silence := time.AfterFunc(time.Hour, func() { _ = link.Close() })
	defer silence.Stop()
	for {
		if news.GraceMS > 0 {
			silence.Reset(keyringSilence)
		} else {
			silence.Stop()
		}
		if k.take(news) {
			told()
		}
		if news, err = nextNews(link); err != nil {
			return err
		}
	}
}

func nextNews(link Link) (n tenant.News, err error) {
	for {
		f, err := nodecall.Next(link)
		if err != nil {
			return n, err
		}
		var news protocol.Reply
		if f.Type != stream.Control || json.Unmarshal(f.Body, &news) != nil || news.Event != protocol.EventKeys {
			continue
		}
		return n, fault.Wrap(fault.Malformed, "gateway.keys", json.Unmarshal(news.Params, &n))
	}
}

// take heeds a node's news, and reports whether the table is another. An older
// one than is known counts for nothing: that node was not told yet.
func (k *keyring) take(n tenant.News) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away, k.grace, k.until = n.Away, time.Duration(n.GraceMS)*time.Millisecond, time.Time{}
	if n.Away && k.grace > 0 {
		k.until = time.Now().Add(k.grace)
	}
	if n.Version == 0 || k.index != nil && n.Version < k.index.Version {
		return false
	}
	k.put(n.Table)
	return true
}

// cut notes that the node tells nothing more.
func (k *keyring) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grace > 0 && !k.away {
		k.away, k.until = true, time.Now().Add(k.grace)
	}
}

func (k *keyring) set(t tenant.Table) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(t)
}

// put takes a table. mu is held.
func (k *keyring) put(t tenant.Table) {
	k.index = tenant.NewIndex(t)
	close(k.changed)
	k.changed = make(chan struct{})
}

// doubt reports whether the keys may have changed unheard, and with an error
// that they may have for too long.
func (k *keyring) doubt() (away bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away && !k.until.IsZero() && time.Now().After(k.until) {
		return true, errAway("the cluster's keys have been out of reach for too long")
	}
	return k.away, nil
}

func errAway(message string) error {
	return &fault.Error{Kind: fault.Unavailable, Op: "gateway.authenticate", RetryAfter: 2, Message: message}
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

// told returns the table, without which no key can be told from a wrong one.
func (k *keyring) told(op string) (*tenant.Index, error) {
	x, _ := k.get()
	if x == nil {
		return nil, &fault.Error{Kind: fault.Unavailable, Op: op, RetryAfter: 1, Message: "the node has not told of any keys yet"}
	}
	return x, nil
}

// open returns whom a secret speaks for.
func (k *keyring) open(secret string) (noderpc.Principal, error) {
	const op = "gateway.authenticate"
	x, err := k.told(op)
	if err != nil {
		return noderpc.Principal{}, err
	}
	away, err := k.doubt()
	if err != nil {
		return noderpc.Principal{}, err
	}
	key, ok := x.Open(secret)
	switch _, form := tenant.IDOf(secret); {
	case ok:
		return speaker(key), nil
	case away && form:
		return noderpc.Principal{}, errAway("this gateway does not know the key, and cannot ask whether another has made it")
	}
	return noderpc.Principal{}, fault.New(fault.Unauthenticated, op, "the token is not valid")
}

// linked refuses a link for viewing that has ended.
func (k *keyring) linked(id string) error {
	x, err := k.told("gateway.authenticate")
	if err != nil {
		return err
	}
	away, err := k.doubt()
	if err != nil {
		return err
	}
	if _, ok := x.Link(id); ok {
		return nil
	}
	if away {
		return errAway("this gateway does not know the link, and cannot ask whether another has made it")
	}
	return errRevoked()
}

func speaker(k tenant.Key) noderpc.Principal {
	return noderpc.Principal{Tenant: k.Tenant, Subject: k.Subject(), Scopes: k.Role.Scopes(), Until: k.Expires}
}

// current reports whether what somebody came with is good still: the key, or
// the sign-in. Other credentials are looked at when they are used.
func (k *keyring) current(who noderpc.Principal) bool {
	if !who.Until.IsZero() && time.Now().After(who.Until) {
		return false
	}
	id, ok := tenant.KeyOf(strings.TrimPrefix(who.Subject, viewSubject))
	if !ok && who.Link == "" {
		return true
	}
	x, _ := k.get()
	if x == nil {
		return false
	}
	if who.Link != "" {
		if _, live := x.Link(who.Link); !live || !ok {
			return live
		}
	}
	key, ok := x.Key(id)
	return ok && key.Tenant == who.Tenant
}

// expel closes the WebSockets of keys and links that have been revoked or have expired.
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
