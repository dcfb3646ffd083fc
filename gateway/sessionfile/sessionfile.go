// Package sessionfile reads and writes files of sessions for surfaces.
package sessionfile

import (
	"context"
	"io"
	"time"

	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// Node opens links.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
}

// Reader is the content of a file. The caller closes it.
type Reader struct {
	*fileclient.Reader
	// Part describes the content.
	Part protocol.FilePart
	link nodecall.Link
	stop func() bool
}

// Close ends the transfer.
func (r *Reader) Close() error {
	r.stop()
	return r.link.Close()
}

// Read reads a file of a session. The end of ctx ends it.
func Read(ctx context.Context, node Node, who noderpc.Principal, file protocol.FileRead,
) (*Reader, error) {
	l, err := node.Open(ctx, who)
	if err != nil {
		return nil, err
	}
	var part protocol.FilePart
	r, err := fileclient.Open(ctx, l, protocol.OpFileRead, file, &part)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &Reader{r, part, l, context.AfterFunc(ctx, func() { _ = l.Close() })}, nil
}

// Write writes a file of a session. The node's confirmation may take the time confirm. The end of ctx
// ends the transfer, and nothing is written.
func Write(ctx context.Context, node Node, who noderpc.Principal, file protocol.FileWrite,
	content io.Reader, confirm time.Duration,
) (protocol.File, error) {
	var written protocol.File
	l, err := node.Open(ctx, who)
	if err != nil {
		return written, err
	}
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	return written, fileclient.Write(l, protocol.OpFileWrite, file, content, confirm, &written)
}
