package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
)

// A checkpoint is a durable session's copy in the blob store, from which another
// node goes on when the session's own is gone. It has the name
// checkpoints/<session>/<token>-<number>, with three endings: .state is what it
// is unpacked from; .about, written behind that, says so, and without it there
// is none; .journal lists the cells that were acknowledged since. Of several
// the greatest name counts. So a node that has lost the session and does not
// know it yet can write what it likes: its token is smaller than that of the one
// who has taken over.

// Checkpoint is the content of an .about.
type Checkpoint struct {
	Manifest
	// State is the object that it is unpacked from, At when the copy was made.
	State string    `json:"state"`
	At    time.Time `json:"at"`
	// Node wrote it.
	Node cluster.NodeID `json:"node"`

	Base string `json:"-"` // its name without the ending
}

func CheckpointFolder(id string) string { return "checkpoints/" + id }

func CheckpointBase(id string, t cluster.Token, number int) string {
	return fmt.Sprintf("%s/%016x-%08d", CheckpointFolder(id), uint64(t), number)
}

// Prune removes what is of earlier checkpoints than c, the abouts first.
func (b *Store) Prune(ctx context.Context, c Checkpoint) error {
	return b.Clear(ctx, c.ID, func(name string) bool {
		return name != c.State && name[:len(name)-len(path.Ext(name))] < c.Base
	})
}

// Clear removes the objects of a session's checkpoints that are to go, the
// abouts first.
func (b *Store) Clear(ctx context.Context, id string, goes func(name string) bool) error {
	var abouts, rest []string
	err := b.Blobs.Walk(ctx, CheckpointFolder(id), func(name string, _ time.Time) error {
		switch {
		case !goes(name):
		case strings.HasSuffix(name, ".about"):
			abouts = append(abouts, name)
		default:
			rest = append(rest, name)
		}
		return nil
	})
	for _, name := range append(abouts, rest...) {
		if err == nil {
			err = b.Blobs.Remove(ctx, name)
		}
	}
	return err
}

// All is for Clear: it removes every object.
func All(string) bool { return true }

// NewestCheckpoint returns the one that counts: NotFound when there is none.
func (b *Store) NewestCheckpoint(ctx context.Context, id string) (Checkpoint, error) {
	const op = "session.checkpoint"
	var c Checkpoint
	newest := ""
	for range 3 { // it may be replaced meanwhile
		newest = ""
		err := b.Blobs.Walk(ctx, CheckpointFolder(id), func(name string, _ time.Time) error {
			if strings.HasSuffix(name, ".about") {
				newest = max(newest, name)
			}
			return nil
		})
		if err != nil {
			return c, err
		}
		if newest == "" {
			break
		}
		r, err := b.Blobs.Get(ctx, newest)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return c, err
		}
		text, err := io.ReadAll(io.LimitReader(r, maxManifest))
		if err = errors.Join(err, r.Close()); err != nil {
			return c, err
		}
		c.Base = strings.TrimSuffix(newest, ".about")
		if err := json.Unmarshal(text, &c); err != nil || c.Version != Version || c.ID != id {
			return c, &fault.Error{Kind: fault.Unavailable, Op: op, Message: "what the blob store has of the session cannot be read by this node", Err: err}
		}
		return c, nil
	}
	return c, &fault.Error{Kind: fault.NotFound, Op: op, Field: "session", Message: "there is no such session"}
}

// FetchJournal brings a checkpoint's journal to a file, which is there in any
// case: more is added to it.
func (b *Store) FetchJournal(ctx context.Context, c Checkpoint, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fault.Wrap(fault.Host, "session.takeover", err)
	}
	r, err := b.Blobs.Get(ctx, c.Base+".journal")
	if fault.Is(err, fault.NotFound) {
		return f.Close()
	}
	if err == nil {
		_, err = io.Copy(f, io.LimitReader(r, MaxJournal))
		err = errors.Join(err, r.Close())
	}
	return errors.Join(err, f.Close())
}
