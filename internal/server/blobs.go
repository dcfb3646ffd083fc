package server

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol/fault"
)

// markFile is the file with the mark of the blob store that this machine has used.
func markFile(cfg *config.Config) string { return filepath.Join(cfg.NodeDir(), "blobs") }

// openMarkedBlobs opens the blob store of a cluster; nil without one. It is used only while it is the
// store that the cluster has agreed on. Without agree, only a store that this machine has used before
// is checked.
func openMarkedBlobs(cfg *config.Config, node string,
	agree func(ctx context.Context, proposed string) (string, error),
) (blob.Store, error) {
	store, err := OpenBlobs(cfg, node)
	if store == nil || err != nil {
		return nil, err
	}
	known, err := os.ReadFile(markFile(cfg))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Host, "node.blobs", err)
	}
	if len(known) == 0 && agree == nil {
		return store, nil
	}
	return blob.NewMarked(store, blob.MarkOptions{
		Known: strings.TrimSpace(string(known)), Agree: agree,
		Remember: func(mark string) error {
			return fault.Wrap(fault.Host, "node.blobs",
				atomicfile.Write(markFile(cfg), []byte(mark+"\n")))
		},
	}), nil
}

// OpenKnownBlobs opens the blob store for a program beside the node. It is not used if this machine's
// node has used another one.
func OpenKnownBlobs(cfg *config.Config) (blob.Store, error) { return openMarkedBlobs(cfg, "", nil) }
