package librechat

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// collect stores the files that a run has written, and adds all its files to the answer. A nil page
// means that the changes are not known yet. g has no source afterwards if the program has written that
// file.
func (s *Surface) collect(ctx context.Context, u store.User, at place, a *answer, inputs []input,
	g *stage, page *protocol.CreatedFiles,
) error {
	if page == nil {
		page = new(protocol.CreatedFiles)
		err := s.call(ctx, u, protocol.OpFileChanges, changesSince(at.session, g.cursor), page)
		if fault.Is(err, fault.SandboxLost) {
			return nil // the output of the program is more important
		}
		if err != nil {
			return err
		}
	}
	g.ended = page.Cursor
	c := changesOf(*page)
	if _, written := c.written[g.source]; written {
		g.source = "" // it is a result
	}
	for _, in := range inputs {
		if in.Owner.ReadOnly {
			delete(c.written, in.name)
		}
	}
	written := slices.Sorted(maps.Keys(c.written))
	if len(written)+len(c.deleted) > 0 {
		g.needKnown(at, func(session string) known { return s.readKnown(ctx, u, session) })
	}
	k := g.known
	stored := 0
	for _, name := range written {
		if stored == maxOutputs || c.written[name] > maxOutputFile {
			continue
		}
		ref, err := s.keep(ctx, u, at.session, a.Storage, name)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			s.cfg.Log.Warn("a file of a run could not be stored", "error", err)
			continue
		}
		stored++
		if old, ok := k[name]; ok {
			ref.Modified = &fileID{old.ID, old.Storage}
		}
		k[name] = origin{a.Storage, ref.ID}
		a.Files = append(a.Files, ref)
	}
	a.delivered(len(written), stored)
	for _, in := range inputs {
		switch {
		case slices.Contains(c.deleted, in.name):
			a.Deleted = append(a.Deleted, in.name)
		case !slices.Contains(written, in.name):
			a.Files = append(a.Files, refOf(in.File, in.name, true))
		}
	}
	for _, name := range c.deleted {
		delete(k, name)
	}
	if at.runtime != "" && !maps.Equal(g.stored, k) {
		if err := s.writeKnown(ctx, u, at.session, k); err != nil {
			return err
		}
	}
	if stored > 0 {
		s.cfg.Go(func() { s.removeOld(u) })
	}
	return nil
}

// keep stores a file of a run.
func (s *Surface) keep(ctx context.Context, u store.User, session, storage, name string,
) (resultRef, error) {
	content, err := sessionfile.Read(ctx, s.cfg.Node, u.Who, protocol.FileRead{
		FileRef: protocol.FileRef{Session: session, Path: folder + "/" + name},
	})
	if err != nil {
		return resultRef{}, err
	}
	defer func() { _ = content.Close() }()
	f, err := s.files.Create(ctx, u, store.File{Storage: storage, Name: name}, content,
		maxOutputFile)
	return refOf(f, name, false), err
}

func refOf(f store.File, name string, inherited bool) resultRef {
	return resultRef{
		ID: f.ID, Name: name, Storage: f.Storage, Session: f.Storage, Path: folder + "/" + name,
		Inherit: inherited,
	}
}

// delivered reports how many of the written files were stored, if not all.
func (a *answer) delivered(attempted, stored int) {
	if attempted == stored {
		return
	}
	a.Delivery = &delivery{
		Code: "artifact_delivery_failed", Status: "partial",
		Attempted: attempted, Delivered: stored, Failed: attempted - stored,
	}
	if stored == 0 {
		a.Delivery.Status = "failed"
	}
}

// removeOld removes files of a user that were kept for their time.
func (s *Surface) removeOld(u store.User) {
	ctx, cancel := context.WithTimeout(s.cfg.Base, time.Minute)
	defer cancel()
	if err := s.files.Sweep(ctx, u); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("old files could not be removed", "error", err)
	}
}
