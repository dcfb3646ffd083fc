package nodeapi

import (
	"context"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/mime"
)

// maxCursor is the most bytes of a cursor.
const maxCursor = 64

// fileChanges lists the files that have changed. The agent keeps the record, so that it is part of
// every copy of the session.
func fileChanges(ctx context.Context, c *call, p protocol.FileChangesQuery,
) (protocol.CreatedFiles, error) {
	var zero protocol.CreatedFiles
	if len(p.Since) > maxCursor {
		return zero, fault.Invalid(c.op(), "since", "a cursor has at most %d bytes", maxCursor)
	}
	if p.Limit < 0 || p.Limit > protocol.MaxCreatedFiles {
		return zero, fault.Invalid(c.op(), "limit", "a limit is between 0 and %d",
			protocol.MaxCreatedFiles)
	}
	if p.Path != "" {
		if err := wire.CheckPath(c.op(), "path", p.Path); err != nil {
			return zero, err
		}
	}
	return withSession(ctx, c, p.Session, func(s *session.Session) (protocol.CreatedFiles, error) {
		page, err := s.Agent().Files.Changes(ctx,
			wire.ChangesSince{Path: p.Path, Since: p.Since, Limit: p.Limit})
		if err != nil {
			return zero, err
		}
		out := protocol.CreatedFiles{
			Cursor: page.Cursor, Truncated: page.Truncated,
			Files: make([]protocol.CreatedFile, len(page.Files)),
		}
		for i, f := range page.Files {
			out.Files[i] = protocol.CreatedFile{
				Path: f.Path, Size: f.Size, MIME: mime.TypeOf(f.Path), Change: changeOf(f.Kind),
			}
		}
		return out, nil
	})
}

// changeOf returns the protocol's word for a change.
func changeOf(kind string) string {
	if kind == wire.FileModified {
		return protocol.ChangeChanged
	}
	return kind
}
