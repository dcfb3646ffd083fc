package nodeapi

import (
	"context"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/notebook"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/protocol"
)

// withFile keeps the session of a file awake while do uses its agent.
func withFile[R any](ctx context.Context, c *call, p protocol.FileRef,
	do func(a *client.Client) (R, error),
) (R, error) {
	if err := wire.CheckPath(c.op(), "path", p.Path); err != nil {
		var zero R
		return zero, err
	}
	return withSession(ctx, c, p.Session,
		func(s *session.Session) (R, error) { return do(s.Agent()) })
}

func fileOf(f wire.FileStat) protocol.File {
	return protocol.File{
		Path: f.Path, Type: f.Type, Size: f.Size, Mode: f.Mode, ModifiedMS: f.Modified,
		UID: f.UID, GID: f.GID, Owner: f.Owner, Group: f.Group,
		Dir: f.Dir, ETag: f.ETag, Target: f.Target, LeadsTo: f.LeadsTo, LeadsType: f.LeadsType,
		Raw: f.Raw,
	}
}

// fileAfter returns the result of an operation that writes a file.
func fileAfter(f wire.FileStat, err error) (protocol.File, error) {
	if err != nil {
		return protocol.File{}, err
	}
	return fileOf(f), nil
}

func fileStat(ctx context.Context, c *call, p protocol.FileStat) (protocol.File, error) {
	return withFile(ctx, c, p.FileRef,
		func(a *client.Client) (protocol.File, error) {
			return fileAfter(a.Files.Stat(ctx,
				wire.FileDescribe{Path: p.Path, NoFollow: p.NoFollow}))
		})
}

func fileMkdir(ctx context.Context, c *call, p protocol.FileRef) (protocol.File, error) {
	return withFile(ctx, c, p,
		func(a *client.Client) (protocol.File, error) {
			return fileAfter(a.Files.Mkdir(ctx, p.Path))
		})
}

func fileMove(ctx context.Context, c *call, p protocol.FileMove) (protocol.File, error) {
	if err := wire.CheckPath(c.op(), "to", p.To); err != nil {
		return protocol.File{}, err
	}
	o := notebook.OwnerOf(c.principal.Tenant, c.principal.Subject, p.Session)
	return withFile(ctx, c, p.FileRef, func(a *client.Client) (protocol.File, error) {
		from, _ := a.Files.Stat(ctx, wire.FileDescribe{Path: p.Path}) // Move has its error
		f, err := a.Files.Move(ctx, wire.FileMove{Path: p.Path, To: p.To, Overwrite: p.Overwrite})
		if err == nil {
			c.server.cfg.Notebooks.Moved(o, from.Path, f.Path)
		}
		return fileAfter(f, err)
	})
}

func fileCopy(ctx context.Context, c *call, p protocol.FileMove) (protocol.File, error) {
	if err := wire.CheckPath(c.op(), "to", p.To); err != nil {
		return protocol.File{}, err
	}
	return withFile(ctx, c, p.FileRef, func(a *client.Client) (protocol.File, error) {
		return fileAfter(a.Files.Copy(ctx,
			wire.FileMove{Path: p.Path, To: p.To, Overwrite: p.Overwrite}))
	})
}

func fileRemove(ctx context.Context, c *call, p protocol.FileRemove) (none, error) {
	return withFile(ctx, c, p.FileRef, func(a *client.Client) (none, error) {
		return none{}, a.Files.Remove(ctx, wire.FileRemove{Path: p.Path, Recursive: p.Recursive})
	})
}

func fileList(ctx context.Context, c *call, p protocol.FileList) (protocol.FileListing, error) {
	return withFile(ctx, c, p.FileRef, func(a *client.Client) (protocol.FileListing, error) {
		page, err := a.Files.List(ctx, wire.FileList{
			Path: p.Path, Depth: p.Depth, Limit: p.Limit, After: p.After,
		})
		if err != nil {
			return protocol.FileListing{}, err
		}
		out := protocol.FileListing{
			Path:    page.Path,
			Entries: make([]protocol.File, len(page.Entries)), Next: page.Next,
		}
		for i, e := range page.Entries {
			out.Entries[i] = fileOf(e)
		}
		return out, nil
	})
}
