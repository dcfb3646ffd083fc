package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

const (
	// fetchLimit bounds the work of an adoption after the session is claimed.
	fetchLimit = 10 * time.Minute
	// unparkRetry is the time between two attempts to remove a manifest.
	unparkRetry = time.Second
)

// stored is a session in the blob store.
type stored struct {
	// Checkpoint is the newest one. A parked session has only a Manifest.
	Checkpoint
	parked bool
}

// Adopt moves a session from the blob store to this node: a parked one, or a durable one whose node
// failed. A session that this node has already is returned as it is. Errors: NotFound, which is the
// same for another tenant's session; Conflict while another node owns it; Unavailable while the
// node takes no sessions, or if it lacks the session's edition.
func (m *Migrator) Adopt(ctx context.Context, p noderpc.Principal,
	id string,
) (protocol.Session, error) {
	const op = "session.adopt"
	if m.cfg.Blobs == nil || cluster.CheckSession(cluster.SessionID(id)) != nil {
		return protocol.Session{}, unknown(op)
	}
	if err := m.adopting.Lock(ctx); err != nil {
		return protocol.Session{}, fault.Wrap(fault.KindOf(err), op, err)
	}
	defer m.adopting.Unlock()
	s, end, open := m.cfg.Sessions.BeginWork(id)
	if open {
		defer end()
	}
	if !open || m.cfg.Owner.Refusing() {
		return protocol.Session{}, &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: 1, Field: nodes.Draining,
			Message: "the node takes no sessions",
		}
	}
	if s != nil {
		if !mayAdopt(p, s.Describe().Tenant, id) {
			return protocol.Session{}, unknown(op)
		}
		return s.View(), nil
	}
	from, err := m.find(ctx, id)
	if fault.Is(err, fault.NotFound) {
		err = &fault.Error{
			Kind: fault.NotFound, Op: op, Field: protocol.FieldAbsent,
			Message: "the blob store does not have the session",
		}
	}
	if err != nil {
		return protocol.Session{}, err
	}
	// The maintenance removes the objects of a session whose lifetime is over.
	if !mayAdopt(p, from.Tenant, id) || time.Now().After(from.Expires) {
		return protocol.Session{}, unknown(op)
	}
	if err := EditionsOf(m).checkEdition(ctx, from); err != nil {
		return protocol.Session{}, err
	}
	if s, err = m.adopt(ctx, from); err != nil {
		return protocol.Session{}, err
	}
	return s.View(), nil
}

// unknown is the error of a session that does not exist for the caller.
func unknown(op string) error {
	return &fault.Error{
		Kind: fault.NotFound, Op: op, Field: "session",
		Message: "there is no such session",
	}
}

// mayAdopt reports whether the principal may have the session adopted. The gateway may do so for
// all tenants.
func mayAdopt(p noderpc.Principal, tenant, id string) bool {
	return p.Sees(tenant, id) || p.Tenant == noderpc.GatewayTenant
}

// find returns what the blob store has for a session. A parked state takes precedence over
// checkpoints.
func (m *Migrator) find(ctx context.Context, id string) (stored, error) {
	a, err := m.objects.Parked(ctx, id)
	if err == nil {
		return stored{Checkpoint{Manifest: a}, true}, nil
	}
	if !fault.Is(err, fault.NotFound) {
		return stored{}, err
	}
	c, err := m.objects.NewestCheckpoint(ctx, id)
	return stored{c, false}, err
}

// adopt claims a session in the blob store and brings it to this node. After the claim the work
// continues even if ctx ends. If it fails, the ownership is handed over again, so that any node may
// try.
func (m *Migrator) adopt(ctx context.Context, from stored) (Movable, error) {
	// After the claim the directory sends clients to this node. Until the session is here, clients
	// have to ask again.
	undo := m.cfg.Departures.Expect(from.ID, from.Tenant)
	token, err := m.cfg.Owner.TakeOver(ctx, from.ID, from.Node, from.Token, from.Created,
		from.Expires)
	if err != nil {
		undo()
		return nil, err
	}
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
	defer cancel()
	defer context.AfterFunc(m.cfg.Context, cancel)()
	var s Movable
	if from.parked {
		s, err = m.fetch(work, from.Manifest, token)
	} else {
		s, err = m.takeOver(work, from.Checkpoint, token)
	}
	if errors.Is(err, errUnsure) {
		m.log.Error("a session stays on the disk of this node until its next start", "session",
			from.ID, "error", err)
		return nil, err
	}
	if err != nil {
		m.log.Error("a session could not be fetched from the blob store",
			"session", from.ID, "parked", from.parked, "error", err)
		if err := m.cfg.Owner.HandOver(context.WithoutCancel(work), from.ID,
			cluster.ReleaseInfo{}); err != nil {
			m.log.Warn("the ownership of a session could not be handed over", "session", from.ID,
				"error", err)
		}
		return nil, err
	}
	m.cfg.Stats.Adopted.Add(1)
	m.log.Info("session adopted", "session", from.ID, "tenant", from.Tenant)
	if s.Describe().Works {
		m.cfg.Go(func() { m.resume(s) })
	}
	return s, nil
}

// fetch brings a parked session to this node's disk. Preconditions: this node has claimed it, with
// the token. The steps:
//
//  1. The state is unpacked to a temporary folder. The next start removes it.
//  2. The logs and then the session's folder are moved to their places. If the process ends now,
//     the next start opens the session, because the manifest in the store has no higher token than
//     the folder. When the directory confirms the ownership, it removes the objects: see
//     removeLeftovers.
//  3. The manifest and the state are removed, before the session can do anything: nobody may resume
//     it from this earlier state. The state of a durable session stays as its checkpoint. If this
//     fails and the manifest is still there, the folders are removed and any node may try again. If
//     the manifest is gone, the folders are the only copy, and the move continues.
//  4. The session is opened and listed.
//  5. The view is removed. Until then lists have the session from the store. That of a durable
//     session stays, beside its checkpoint.
func (m *Migrator) fetch(ctx context.Context, a Manifest, token cluster.Token) (Movable, error) {
	const op = "session.fetch"
	dir := m.cfg.Folders.temporary()
	defer func() { _ = os.RemoveAll(dir) }()
	if err := m.objects.Unpack(ctx, StateName(a.ID), dir); err != nil {
		return nil, err
	}
	// An earlier stay on this node may have left folders.
	if err := m.removeFolders(a.ID); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	home, logs := m.cfg.Folders.session(a.ID), m.cfg.Folders.logs(a.ID)
	if err := os.Rename(filepath.Join(dir, "logs"), logs); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := os.Rename(filepath.Join(dir, "session"), home); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := m.unparkSurely(ctx, a, token); errors.Is(err, errUnsure) {
		return nil, err
	} else if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home), os.RemoveAll(logs))
	}
	s, err := m.cfg.Sessions.Open(a.ID)
	if err == nil && !m.staysStored(s.Describe()) {
		m.addLeftover(a.ID)
		m.removeLeftover(s)
	}
	return s, err
}

// staysStored reports whether the store has a durable session also while a node has it.
func (m *Migrator) staysStored(d Description) bool { return d.Durable && m.cfg.Checkpoints }

// errUnsure is the error of a fetch that could not find out whether the manifest is removed. The
// session must then stay on this node's disk and keep its owner.
var errUnsure = fault.New(fault.Unavailable, "session.fetch",
	"the blob store does not say whether the session is removed from it")

// unparkSurely removes the objects of a parked session. After an error the manifest is still there,
// unless the error is errUnsure. The answer of the store may be lost, so it reads the manifest after
// an error, until the store answers or ctx ends.
func (m *Migrator) unparkSurely(ctx context.Context, a Manifest, token cluster.Token) error {
	for {
		err := m.unpark(ctx, a, token)
		if err == nil {
			return nil
		}
		_, there := m.objects.Parked(ctx, a.ID)
		if there == nil {
			return err
		}
		if fault.Is(there, fault.NotFound) {
			m.log.Warn("some objects of an adopted session are still in the blob store", "session",
				a.ID, "error", err)
			return nil
		}
		select {
		case <-time.After(unparkRetry):
		case <-ctx.Done():
			return errUnsure
		}
	}
}

// unpark removes the objects of a parked session that this node has fetched. The state of a durable
// session becomes a checkpoint first: if this node fails before the next one, the session continues
// from the moment when it was parked.
func (m *Migrator) unpark(ctx context.Context, a Manifest, token cluster.Token) error {
	EditionsOf(m).removeMark(ctx, a)
	if !a.Durable || !m.cfg.Checkpoints {
		return m.objects.removeState(ctx, a.ID)
	}
	c := Checkpoint{
		Manifest: a, State: StateName(a.ID), At: a.Parked, Node: m.cfg.Node,
		Base: CheckpointBase(a.ID, token, 0),
	}
	c.Token = token
	var err error
	if c.Key, err = m.cfg.Keys.Key(sandbox.Spec{}); err != nil {
		return err
	}
	if err := m.objects.PutCheckpoint(ctx, c); err != nil {
		return err
	}
	return m.cfg.Blobs.Remove(ctx, ManifestName(a.ID))
}

// takeOver continues a session of a failed node from its checkpoint. Preconditions: this node has
// claimed it, with the token. The steps:
//
//  1. The state and the journal are brought to a temporary folder. The next start removes it.
//  2. A checkpoint with the new token and the same state is written. From here on any object that the
//     failed node still writes has a lower name and is ignored.
//  3. The folder becomes the session's only copy on this node's disk. A process that ends after this
//     step recovers the session from it.
//  4. The session is recovered from the copy and listed.
func (m *Migrator) takeOver(ctx context.Context, c Checkpoint,
	token cluster.Token,
) (Movable, error) {
	const op = "session.takeover"
	dir := m.cfg.Folders.temporary()
	defer func() { _ = os.RemoveAll(dir) }()
	if err := m.objects.Unpack(ctx, c.State, dir); err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, "session")
	if err := completeCopy(folder, filepath.Join(dir, "logs"), c.At); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if err := m.objects.FetchJournal(ctx, c,
		filepath.Join(folder, snapshot.JournalName)); err != nil {
		return nil, err
	}
	from := c.Base
	c.Token, c.Node, c.Base = token, m.cfg.Node, CheckpointBase(c.ID, token, 0)
	if err := m.objects.PutCheckpoint(ctx, c); err != nil {
		return nil, err
	}
	number, err := m.cfg.Copies.Import(c.ID, folder)
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	s, err := m.cfg.Sessions.Recover(c, number)
	if err != nil {
		return nil, errors.Join(err, m.cfg.Copies.Remove(c.ID))
	}
	m.cfg.Stats.TakenOver.Add(1)
	m.log.Info("session taken over", "session", c.ID, "tenant", c.Tenant, "token", token, "as_of",
		c.At, "from", from)
	return s, nil
}

// completeCopy makes an unpacked session folder a copy: it moves the logs into the folder, and adds
// the moment that it shows to its record. The record of a parked session does not have that moment.
func completeCopy(folder, logs string, at time.Time) error {
	c, err := snapshot.ReadManifest(folder)
	if err != nil {
		return err
	}
	if c.At.IsZero() {
		c.At, c.Session = at, c.Record.ID
		data, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if err := atomicfile.Write(filepath.Join(folder, "session.json"), data); err != nil {
			return err
		}
	}
	if err := os.Rename(logs, filepath.Join(folder, "logs")); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
