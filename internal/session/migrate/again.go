package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Again moves sessions from the blob store to this node and back, so that they are carried over to the
// current edition before their own ends. It implements carry.Parked.
type Again struct{ *Migrator }

// Ending returns the sessions in the blob store whose edition ends, at most maxMarks of them. With
// all, it includes the durable sessions of which the store has a copy only: most of them are on other
// nodes, which refuse to give them. Then it is an error if there are more.
func (a Again) Ending(ctx context.Context, ends func(edition string) bool, all bool) (
	ids []string, err error,
) {
	if !a.Shared() {
		return nil, nil
	}
	n := 0
	err = a.cfg.Blobs.Walk(ctx, marksFolder, func(name string, _ time.Time) error {
		if n++; n > maxMarks {
			return errMany
		}
		if ends(path.Base(path.Dir(name))) {
			ids = append(ids, path.Base(name))
		}
		return nil
	})
	if errors.Is(err, errMany) && !all {
		err = nil
	}
	if err != nil || !all || !a.cfg.Checkpoints {
		return ids, err
	}
	copies, err := a.endingCopies(ctx, ends)
	return append(ids, copies...), err
}

// endingCopies returns the sessions whose newest checkpoint needs an edition that ends, and that are
// not on this node. It calls ends for those of this node, too.
func (a Again) endingCopies(ctx context.Context, ends func(edition string) bool) (
	ids []string, err error,
) {
	newest := map[string]string{}
	err = a.cfg.Blobs.Walk(ctx, "checkpoints", func(name string, _ time.Time) error {
		parts := strings.Split(name, "/")
		if len(parts) != 3 || !strings.HasSuffix(name, ".about") {
			return nil
		}
		if _, is := newest[parts[1]]; !is && len(newest) == maxMarks {
			return errMany
		}
		newest[parts[1]] = max(newest[parts[1]], name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Those of this node are not fetched, but need their edition until they have a later checkpoint.
	here, _ := a.cfg.Sessions.All()
	mine := map[string]bool{}
	for _, s := range here {
		mine[s.Describe().ID] = true
	}
	known := map[string]string{}
	a.mu.Lock()
	before := a.editionOf
	a.mu.Unlock()
	for id, name := range newest {
		of, is := before[name]
		if !is {
			if of, err = a.editionOfCopy(ctx, name); err != nil {
				return ids, err
			}
		}
		known[name] = of
		if of != "" && ends(of) && !mine[id] {
			ids = append(ids, id)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.editionOf = known
	return ids, nil
}

// editionOfCopy returns the edition of a checkpoint; empty if it was removed or does not say it.
func (a Again) editionOfCopy(ctx context.Context, name string) (string, error) {
	r, err := a.cfg.Blobs.Get(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var c Checkpoint
	text, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err = errors.Join(err, r.Close()); err == nil && json.Unmarshal(text, &c) != nil {
		return "", nil
	}
	return c.Edition, err
}

// Fetch moves a session to this node. Errors: those of Adopt.
func (a Again) Fetch(ctx context.Context, id string) (Movable, error) {
	const op = "session.adopt"
	if _, err := a.Adopt(ctx, noderpc.Principal{Tenant: noderpc.GatewayTenant}, id); err != nil {
		return nil, err
	}
	s, end, open := a.cfg.Sessions.BeginWork(id)
	if !open {
		return nil, fault.New(fault.Restarting, op, "the node is stopping")
	}
	defer end()
	if s == nil {
		return nil, unknown(op)
	}
	return s, nil
}

// Park moves a session to the blob store again. Errors: NotFound, and those of a drain.
func (a Again) Park(ctx context.Context, id string) error {
	const op = "session.park"
	s, end, open := a.cfg.Sessions.BeginWork(id)
	if !open {
		return fault.New(fault.Restarting, op, "the node is stopping")
	}
	defer end()
	if s == nil {
		return unknown(op)
	}
	if v := s.View(); v.State != "hibernated" {
		return fault.New(fault.Unavailable, op, "the session is used")
	}
	return a.park(ctx, s)
}

// Elsewhere reports whether another node has an edition that does not end there.
func (a Again) Elsewhere(ctx context.Context, edition string) bool {
	return a.cfg.Elsewhere != nil && a.cfg.Elsewhere(ctx, edition)
}
