package envd

import (
	"context"
	"net/http"

	"github.com/sandgate/sandgate/gateway/e2b/envd/files"
	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
)

// mountFiles adds the routes of the contents of files.
func mountFiles(mux *http.ServeMux, cfg Config) {
	h := files.New(files.Config{
		Config: remote.Config{Node: cfg.Node, Base: cfg.Base, Call: cfg.Call},
		Target: func(ctx context.Context) files.Target {
			t := sandbox.TargetOf(ctx)
			return files.Target{
				Target: remote.Target{Session: t.Session, Who: t.Who}, Token: t.Token,
				AccessToken: t.AccessToken,
			}
		},
	})
	mux.Handle("GET /files", answer(h.Get))
	mux.Handle("POST /files", answer(h.Post))
	mux.Handle("POST /files/compose", answer(h.Compose))
}
