package envd

import (
	"context"
	"net/http"

	"github.com/sandgate/sandgate/gateway/e2b/envd/filesystem"
	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
)

// mountFilesystem adds the service for files.
func mountFilesystem(mux *http.ServeMux, cfg Config, schema *wire.Schema) {
	mux.Handle("/"+wire.FilesystemService+"/", filesystem.New(filesystem.Config{
		Config: remote.Config{Node: cfg.Node, Base: cfg.Base, Call: cfg.Call},
		Target: func(ctx context.Context) remote.Target {
			t := sandbox.TargetOf(ctx)
			return remote.Target{Session: t.Session, Who: t.Who}
		},
	}, schema))
}
