// Package migrate moves sessions between this node and the blob store: it parks
// and adopts them, uploads the copies of durable sessions, and takes over the
// sessions of failed nodes.
package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Store is the part of a blob store that has sessions.
type Store struct {
	Blobs Blobs
	// Swept is called with the number of objects that a sweep removed.
	Swept func(n int)
	views viewCache
}

// Limits of reads.
const (
	maxManifest = 64 << 10
	// MaxJournal is how many bytes of a journal are uploaded, about 4,000 cells. If the node fails,
	// cells after this limit are lost without a message.
	MaxJournal = 256 << 10
)

// Blobs is the blob store. An object appears completely or not at all.
type Blobs interface {
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Get returns NotFound for an object that does not exist.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove does nothing for an object that does not exist.
	Remove(ctx context.Context, name string) error
	// Walk calls f for each object below a folder, until f fails.
	Walk(ctx context.Context, folder string, f func(name string, changed time.Time) error) error
	// Tidy removes the parts of writes that began before a time and never ended. It
	// returns their number.
	Tidy(ctx context.Context, before time.Time) (int, error)
}

// A parked session has three objects: its state, a view in its tenant's folder,
// and its manifest, without which the session is not parked. They are written in
// this order and removed in the opposite order.

// StateName returns the name of the object with a parked session's archive.
func StateName(id string) string { return "sessions/" + id + "/state" }

// ManifestName returns the name of the object with a parked session's Manifest.
func ManifestName(id string) string { return "sessions/" + id + "/about" }

// ViewName returns the name of the object with a session's view, for lists.
func ViewName(tenant, id string) string {
	return ViewFolder(tenant) + "/" + id
}

// ViewFolder returns the folder with the views of a tenant's sessions. It is named
// by a hash, because a tenant's name may contain any character.
func ViewFolder(tenant string) string {
	sum := sha256.Sum256([]byte(tenant))
	return "tenants/" + hex.EncodeToString(sum[:16])
}

// Manifest describes a session in the blob store.
type Manifest struct {
	Version int           `json:"version"`
	ID      string        `json:"id"`
	Tenant  string        `json:"tenant"`
	Created time.Time     `json:"created"`
	Expires time.Time     `json:"expires"`
	Token   cluster.Token `json:"token"`
	// Key is the backend's key, for nodes of earlier releases: they resume no checkpoint with another
	// key than theirs.
	Key string `json:"key"`
	// Edition is the edition that a node needs: see sandbox.Backend. Nodes of earlier releases have
	// not set it.
	Edition string `json:"edition,omitempty"`
	// Durable reports a durable session: its state stays in the store as a checkpoint
	// of the time Parked when a node adopts it.
	Durable bool      `json:"durable,omitempty"`
	Parked  time.Time `json:"parked,omitzero"`
}

// Version is the version of manifests that this package writes and reads.
const Version = 1

// PutParked writes a parked session's objects, the manifest last. dir and logs are
// the session's folders. After an error it removes what it wrote.
func (b *Store) PutParked(ctx context.Context, a Manifest, view protocol.Session,
	dir, logs string,
) error {
	err := b.Blobs.Put(ctx, StateName(a.ID), func(w io.Writer) error {
		return snapshot.Pack(w, map[string]string{"session": dir, "logs": logs})
	})
	if err == nil {
		err = b.PutJSON(ctx, ViewName(a.Tenant, a.ID), view)
	}
	if err == nil && a.Edition != "" {
		err = b.Blobs.Put(ctx, markName(a), empty)
	}
	if err == nil {
		err = b.PutJSON(ctx, ManifestName(a.ID), a)
	}
	if err != nil {
		return errors.Join(err, b.RemoveParked(context.WithoutCancel(ctx), a.Tenant, a.ID))
	}
	return nil
}

// PutJSON writes an object that is the JSON of v.
func (b *Store) PutJSON(ctx context.Context, name string, v any) error {
	return b.Blobs.Put(ctx, name, func(w io.Writer) error { return json.NewEncoder(w).Encode(v) })
}

// PutCheckpoint writes the .about file, which completes a checkpoint.
func (b *Store) PutCheckpoint(ctx context.Context, c Checkpoint) error {
	return b.PutJSON(ctx, c.Base+".about", c)
}

// hibernatedView returns a view of a session for lists, as if it had no sandbox.
func hibernatedView(v protocol.Session) protocol.Session {
	v.State, v.Reason, v.Usage = "hibernated", "", nil
	return v
}

// RemoveParked removes a parked session's objects, the manifest first and the view last.
func (b *Store) RemoveParked(ctx context.Context, tenant, id string) error {
	if err := b.removeState(ctx, id); err != nil {
		return err
	}
	return b.removeView(ctx, tenant, id)
}

// removeState removes the manifest of a parked session, and then its state. If that of the manifest
// fails, the state stays: a manifest without a state would be a session that no node can adopt.
func (b *Store) removeState(ctx context.Context, id string) error {
	if err := b.Blobs.Remove(ctx, ManifestName(id)); err != nil {
		return err
	}
	return b.Blobs.Remove(ctx, StateName(id))
}

// removeView removes a session of the store from lists.
func (b *Store) removeView(ctx context.Context, tenant, id string) error {
	return b.Blobs.Remove(ctx, ViewName(tenant, id))
}

// Parked returns the manifest of a parked session. Errors: NotFound, Unavailable
// for a manifest of another version.
func (b *Store) Parked(ctx context.Context, id string) (Manifest, error) {
	const op = "session.adopt"
	var a Manifest
	r, err := b.Blobs.Get(ctx, ManifestName(id))
	if fault.Is(err, fault.NotFound) {
		return a, &fault.Error{
			Kind: fault.NotFound, Op: op, Field: "session",
			Message: "there is no such session",
		}
	}
	if err != nil {
		return a, err
	}
	defer func() { _ = r.Close() }()
	err = json.NewDecoder(io.LimitReader(r, maxManifest)).Decode(&a)
	if err != nil || a.Version != Version || a.ID != id {
		return a, &fault.Error{
			Kind: fault.Unavailable, Op: op, Err: err,
			Message: "what the blob store has of the session cannot be read by this node",
		}
	}
	return a, nil
}

// Unpack downloads a state to a folder, which it creates. Errors: Host for a
// damaged state.
func (b *Store) Unpack(ctx context.Context, name, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Host, "session.fetch", err)
	}
	r, err := b.Blobs.Get(ctx, name)
	if err != nil {
		return err
	}
	err = snapshot.Unpack(ctx, r, dir)
	if err == nil {
		// The checksum is compared at the end.
		_, err = io.Copy(io.Discard, r)
	}
	err = errors.Join(err, r.Close())
	if fault.Is(err, fault.Malformed) {
		return &fault.Error{
			Kind: fault.Host, Op: "session.fetch", Err: err,
			Message: "what the blob store has of the session is damaged",
		}
	}
	return err
}

// RemoveSession removes all objects of a session, the view first: a process that
// ends in between finds the tenant, and with it the view's name, in the checkpoint.
func (b *Store) RemoveSession(ctx context.Context, tenant, id string) error {
	err := b.Blobs.Remove(ctx, ViewName(tenant, id))
	if err == nil {
		err = b.Clear(ctx, id, All)
	}
	if err == nil {
		err = b.Blobs.Remove(ctx, StateName(id))
	}
	return err
}
