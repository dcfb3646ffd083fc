// Package migrate keeps sessions in the blob store while no node has them, and
// the checkpoints of durable ones. It knows the objects and their names, and no
// live session. Package session decides when a session moves.
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

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
)

// Store is the sessions' part of a blob store.
type Store struct {
	Blobs Blobs
	// Swept is called with the number of objects that a sweep removed.
	Swept func(n int)
}

// Limits of what is read.
const (
	maxManifest = 64 << 10
	// MaxJournal is how much of a journal goes to the store: beyond 4,000 cells
	// they are lost with their node, without a message.
	MaxJournal = 256 << 10
	// maxListed is how many sessions of a tenant are listed.
	maxListed = 1000
)

// Blobs is where sessions lie between two nodes. An object appears whole or not
// at all.
type Blobs interface {
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Get is NotFound for one that is not there.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove does nothing for one that is not there.
	Remove(ctx context.Context, name string) error
	// Walk tells of the objects below a folder, until f fails.
	Walk(ctx context.Context, folder string, f func(name string, changed time.Time) error) error
	// Tidy removes what is left of writes that began before then and never
	// ended.
	Tidy(ctx context.Context, before time.Time) (int, error)
}

// A parked session has three objects, written in this order and removed in the
// other: state, which it is unpacked from; a view in its tenant's folder, for
// lists; and about, without which there is none.
func StateName(id string) string    { return "sessions/" + id + "/state" }
func ManifestName(id string) string { return "sessions/" + id + "/about" }
func ViewName(tenant, id string) string {
	return ViewFolder(tenant) + "/" + id
}

// ViewFolder is named by a hash: a tenant's name may hold anything.
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
	// Key is that of the host: a node with another could not wake it.
	Key string `json:"key"`
	// Durable sessions stay in the store when a node has fetched them, as of
	// Parked.
	Durable bool      `json:"durable,omitempty"`
	Parked  time.Time `json:"parked,omitzero"`
}

const Version = 1

// PutParked writes a parked session's objects.
func (b *Store) PutParked(ctx context.Context, a Manifest, view protocol.Session, dir, logs string) error {
	err := b.Blobs.Put(ctx, StateName(a.ID), func(w io.Writer) error {
		return snapshot.Pack(w, map[string]string{"session": dir, "logs": logs})
	})
	if err == nil {
		err = b.PutJSON(ctx, ViewName(a.Tenant, a.ID), view)
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

// RemoveParked removes a parked session's objects.
func (b *Store) RemoveParked(ctx context.Context, tenant, id string) error {
	var err error
	for _, name := range []string{ManifestName(id), ViewName(tenant, id), StateName(id)} {
		err = errors.Join(err, b.Blobs.Remove(ctx, name))
	}
	return err
}

// Parked returns the manifest of a session in the store: NotFound when there is
// none.
func (b *Store) Parked(ctx context.Context, id string) (Manifest, error) {
	const op = "session.adopt"
	var a Manifest
	r, err := b.Blobs.Get(ctx, ManifestName(id))
	if fault.Is(err, fault.NotFound) {
		return a, &fault.Error{Kind: fault.NotFound, Op: op, Field: "session", Message: "there is no such session"}
	}
	if err != nil {
		return a, err
	}
	defer func() { _ = r.Close() }()
	if err := json.NewDecoder(io.LimitReader(r, maxManifest)).Decode(&a); err != nil || a.Version != Version || a.ID != id {
		return a, &fault.Error{Kind: fault.Unavailable, Op: op, Message: "what the blob store has of the session cannot be read by this node", Err: err}
	}
	return a, nil
}

// Unpack brings a state object below dir.
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
		// To its end, where it is checked.
		_, err = io.Copy(io.Discard, r)
	}
	err = errors.Join(err, r.Close())
	if fault.Is(err, fault.Malformed) {
		return &fault.Error{Kind: fault.Host, Op: "session.fetch", Message: "what the blob store has of the session is damaged", Err: err}
	}
	return err
}

// RemoveSession removes all objects of a session.
func (b *Store) RemoveSession(ctx context.Context, tenant, id string) error {
	err := b.Clear(ctx, id, All)
	if err == nil {
		err = b.Blobs.Remove(ctx, ViewName(tenant, id))
	}
	if err == nil {
		err = b.Blobs.Remove(ctx, StateName(id))
	}
	return err
}

// Views lists a tenant's sessions that are in the store, in no order.
func (b *Store) Views(ctx context.Context, tenant string) (all []protocol.Session, err error) {
	var names []string
	err = b.Blobs.Walk(ctx, ViewFolder(tenant), func(name string, _ time.Time) error {
		if names = append(names, name); len(names) == maxListed {
			return io.EOF
		}
		return nil
	})
	if err != nil && err != io.EOF { //nolint:errorlint // our own
		return nil, err
	}
	for _, name := range names {
		var v protocol.Session
		r, err := b.Blobs.Get(ctx, name)
		if fault.Is(err, fault.NotFound) {
			continue // it was adopted meanwhile
		}
		if err != nil {
			return nil, err
		}
		err = json.NewDecoder(io.LimitReader(r, 4<<20)).Decode(&v)
		_ = r.Close()
		if err == nil {
			all = append(all, v)
		}
	}
	return all, nil
}
