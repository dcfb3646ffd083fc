package store

import (
	"context"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The largest page of a listing, and the most files of a storage session.
const (
	pageSize = 5000
	maxFiles = 2000
)

// Get returns a file. Errors: NotFound with a field if the user has no such file.
func (s *Store) Get(ctx context.Context, u User, storage, id string) (File, error) {
	if !ValidID(id) {
		return File{}, errMissing()
	}
	all, err := s.list(ctx, u, storage, id)
	if err != nil {
		return File{}, err
	}
	if len(all) == 0 {
		return File{}, errMissing()
	}
	return all[0], nil
}

// List returns the files of a storage session, by the order of their ids.
func (s *Store) List(ctx context.Context, u User, storage string) ([]File, error) {
	return s.list(ctx, u, storage, "")
}

// list returns the file with an id, or all files for an empty id.
func (s *Store) list(ctx context.Context, u User, storage, id string) ([]File, error) {
	if !ValidID(storage) {
		return nil, errMissing()
	}
	session, err := s.Session(ctx, u, false)
	if err != nil || session == "" {
		return nil, err
	}
	folder, depth := root+"/"+storage, levels-1+nameDepth
	if id != "" {
		folder, depth = folder+"/"+id, depth-1
	}
	q := protocol.FileList{
		FileRef: protocol.FileRef{Session: session, Path: folder}, Depth: depth, Limit: pageSize,
	}
	var all []File
	for {
		var page protocol.FileListing
		err := s.Node.Call(ctx, u.Who, protocol.OpFileList, q, &page)
		if fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field != "" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			if f, ok := fileOf(e); ok && time.Since(f.Modified) < s.Retention {
				all = append(all, f)
			}
		}
		if q.After = page.Next; q.After == "" || len(all) >= maxFiles {
			return all, nil
		}
	}
}

// fileOf returns the file of an entry of a listing.
func fileOf(e protocol.File) (f File, ok bool) {
	rest, ok := strings.CutPrefix(e.Path, root+"/")
	parts := strings.SplitN(rest, "/", levels+1)
	if !ok || e.Type != "file" || len(parts) != levels+1 {
		return f, false
	}
	f = File{
		Storage: parts[0], ID: parts[1], Name: parts[levels],
		Size: e.Size, ETag: e.ETag, Modified: time.UnixMilli(e.ModifiedMS),
	}
	f.Owner, ok = decodeOwner(parts[2])
	return f, ok
}

// Remove removes a file. Errors: NotFound with a field.
func (s *Store) Remove(ctx context.Context, u User, storage, id string) error {
	f, err := s.Get(ctx, u, storage, id)
	if err != nil {
		return err
	}
	return s.remove(ctx, u, f.folder())
}

func (s *Store) remove(ctx context.Context, u User, path string) error {
	session, err := s.Session(ctx, u, false)
	if err != nil || session == "" {
		return err
	}
	return s.Node.Call(ctx, u.Who, protocol.OpFileRemove, protocol.FileRemove{
		FileRef: protocol.FileRef{Session: session, Path: path}, Recursive: true,
	}, nil)
}

// maxSwept is the most storage sessions that one Sweep removes.
const maxSwept = 50

// Sweep removes storage sessions in which nothing was written for the retention.
func (s *Store) Sweep(ctx context.Context, u User) error {
	session, err := s.Session(ctx, u, false)
	if err != nil || session == "" {
		return err
	}
	var page protocol.FileListing
	if err := s.Node.Call(ctx, u.Who, protocol.OpFileList, protocol.FileList{
		FileRef: protocol.FileRef{Session: session, Path: root}, Limit: pageSize,
	}, &page); err != nil {
		return err
	}
	swept := 0
	for _, e := range page.Entries {
		if !e.Dir || time.Since(time.UnixMilli(e.ModifiedMS)) < s.Retention {
			continue
		}
		if err := s.remove(ctx, u, e.Path); err != nil {
			return err
		}
		if swept++; swept == maxSwept {
			return nil
		}
	}
	return nil
}
