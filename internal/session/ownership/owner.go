// Package ownership answers which sessions this node owns, and which sessions
// have left it or are about to arrive.
package ownership

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Directory records which node owns which session. Own, TakeOver, Release and Forget may
// take a moment. Resume and Owns do not wait for another process.
type Directory interface {
	// Own claims a session.
	Own(
		ctx context.Context, id cluster.SessionID, mode cluster.ClaimMode, last cluster.Token,
		until time.Time,
	) (cluster.Token, error)
	// TakeOver claims a session that continues from a copy of a node, which is empty for a parked one.
	TakeOver(
		ctx context.Context, id cluster.SessionID, from cluster.NodeID, last cluster.Token,
		until time.Time,
	) (cluster.Token, error)
	// Release ends the ownership of a session whose state is in the blob store.
	// busy reports that the session was running code.
	Release(ctx context.Context, id cluster.SessionID, as cluster.ReleaseInfo) error
	Ender
	// Resume adds a session that the node had before its start.
	Resume(id cluster.SessionID, last cluster.Token, until time.Time)
	// Owns reports whether the node owns a session now, and its token. The token
	// is 0 for a session of another node.
	Owns(id cluster.SessionID) (cluster.Token, bool)
}

// Ender removes ended sessions from a directory.
type Ender interface {
	// End records why a session has ended, for as long as keep. The node still owns it.
	End(ctx context.Context, id cluster.SessionID, reason string, keep time.Duration)
	// Forget removes a session that has ended.
	Forget(ctx context.Context, id cluster.SessionID)
}

const (
	// forgetLimit bounds Forget. If the directory does not answer in time, the
	// LeaseHolder removes the session with a later heartbeat.
	forgetLimit = 5 * time.Second
	// releaseLimit bounds HandOver.
	releaseLimit = 15 * time.Second
	// waitEvery is how often Wait checks the ownership again.
	waitEvery = 50 * time.Millisecond
)

// Config is the configuration of an Owner.
type Config struct {
	// Directory is nil for a node that owns all its sessions.
	Directory Directory
	// Retention is the longest time from the creation of a session to the removal
	// of its last trace: the directory keeps its record that long. 0 means that sessions need not
	// end.
	Retention time.Duration
	// Fenced counts the calls of Check that returned an error.
	Fenced *atomic.Int64
}

// Owner is the ownership of sessions as this node sees it. Its methods may be
// called concurrently. Without a directory the node owns every session.
type Owner struct {
	cfg      Config
	refusing atomic.Bool
}

// New returns an Owner that takes new sessions.
func New(cfg Config) *Owner { return &Owner{cfg: cfg} }

// HasDirectory reports whether a directory decides about the ownership.
func (o *Owner) HasDirectory() bool { return o.cfg.Directory != nil }

// Refuse makes the node refuse new and parked sessions from now on, because it is being drained.
func (o *Owner) Refuse() { o.refusing.Store(true) }

// Accept makes the node take sessions again.
func (o *Owner) Accept() { o.refusing.Store(false) }

// Refusing reports whether the node takes no sessions.
func (o *Owner) Refusing() bool { return o.refusing.Load() }

// Claim makes the node the owner of a session that is about to be created.
// Errors: Unavailable while the node is drained or without an answer of the
// directory.
func (o *Owner) Claim(ctx context.Context, id string, created time.Time) error {
	if o.cfg.Directory == nil {
		return nil
	}
	if o.Refusing() {
		return &fault.Error{
			Kind: fault.Unavailable, Op: "session.create", RetryAfter: 1,
			Field: nodes.Draining, Message: "the node is being drained and takes no sessions",
		}
	}
	_, err := o.cfg.Directory.Own(ctx, cluster.SessionID(id), cluster.ClaimNew, 0,
		o.until(created, created))
	return err
}

// TakeOver makes the node the owner of a parked session, or of a session whose node failed, which is
// from. last is the token in the blob store, and expires the end of its lifetime. Errors: Conflict
// while another node owns it, and those of the directory.
func (o *Owner) TakeOver(ctx context.Context, id string, from cluster.NodeID, last cluster.Token,
	created, expires time.Time,
) (cluster.Token, error) {
	return o.cfg.Directory.TakeOver(ctx, cluster.SessionID(id), from, last,
		o.until(created, expires))
}

// Renew claims again a session that the node had before its start and that has ended. Errors:
// Conflict if another node owns it.
func (o *Owner) Renew(ctx context.Context, id string) error {
	_, err := o.cfg.Directory.Own(ctx, cluster.SessionID(id), cluster.ClaimRenew, 0,
		o.until(time.Now(), time.Now()))
	return err
}

// Resume adds a session that the node had before its start, with its last token. The node owns it
// when the directory agrees.
func (o *Owner) Resume(id string, last cluster.Token, created, expires time.Time) {
	if o.cfg.Directory != nil {
		o.cfg.Directory.Resume(cluster.SessionID(id), last, o.until(created, expires))
	}
}

// HandOver ends the ownership of a session whose state is in the blob store, so
// that another node may adopt it. It takes at most 15 s. After an error it is
// unknown whether the node still owns the session.
func (o *Owner) HandOver(ctx context.Context, id string, as cluster.ReleaseInfo) error {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	return o.cfg.Directory.Release(ctx, cluster.SessionID(id), as)
}

// Forget ends the ownership of a session that has ended, or that could not be
// created. It takes at most 5 s.
func (o *Owner) Forget(id string) {
	if o.cfg.Directory == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetLimit)
	defer cancel()
	o.cfg.Directory.Forget(ctx, cluster.SessionID(id))
}

// End records in the directory why a session has ended, for as long as its node remembers it. A
// session that was deleted, or that is not lost for good, is removed from the directory. It takes at
// most 5 s.
func (o *Owner) End(id, reason string, keep time.Duration) {
	switch reason {
	case "deleted", "restarting", "moved":
		o.Forget(id)
		return
	}
	if o.cfg.Directory == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), forgetLimit)
	defer cancel()
	o.cfg.Directory.End(ctx, cluster.SessionID(id), reason, keep)
}

// Check returns nil while the node owns the session. Otherwise the node must not
// acknowledge anything, because another node may own it by now. Errors:
// Unavailable.
func (o *Owner) Check(id string) error {
	if o.Owns(id) {
		return nil
	}
	o.cfg.Fenced.Add(1)
	return &fault.Error{
		Kind: fault.Unavailable, Op: "session.fence", RetryAfter: 1,
		Message: "the node cannot reach the directory and does not know whether the session is still its own",
	}
}

// Owns reports whether the node owns the session now.
func (o *Owner) Owns(id string) bool {
	if o.cfg.Directory == nil {
		return true
	}
	_, owned := o.cfg.Directory.Owns(cluster.SessionID(id))
	return owned
}

// Lookup returns the session's last fencing token on this node, 0 for a session of another node,
// and whether the node owns the session now. Preconditions: there is a directory.
func (o *Owner) Lookup(id string) (cluster.Token, bool) {
	return o.cfg.Directory.Owns(cluster.SessionID(id))
}

// Token returns the session's last fencing token on this node: 0 without a
// directory, and for a session of another node.
func (o *Owner) Token(id string) cluster.Token {
	if o.cfg.Directory == nil {
		return 0
	}
	token, _ := o.cfg.Directory.Owns(cluster.SessionID(id))
	return token
}

// Wait waits until the node owns the session, which takes a moment after the
// start of a node. ended is closed when the session ends. Errors: SandboxLost
// when the session has ended, Canceled.
func (o *Owner) Wait(ctx context.Context, id string, ended <-chan struct{}) error {
	const op = "session.fence"
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for !o.Owns(id) {
		select {
		case <-tick.C:
		case <-ended:
			return fault.New(fault.SandboxLost, op, "the session has ended")
		case <-ctx.Done():
			return fault.Wrap(fault.Canceled, op, ctx.Err())
		}
	}
	return nil
}

// until returns a time by which a session that was created at created has certainly ended, even if
// its lifetime was changed. Its end expires is later if the server limits lifetimes now and did not
// when the session was created.
func (o *Owner) until(created, expires time.Time) time.Time {
	if o.cfg.Retention == 0 {
		return cluster.NoEnd()
	}
	if most := created.Add(o.cfg.Retention); most.After(expires) {
		return most
	}
	return expires.Add(o.cfg.Retention)
}
