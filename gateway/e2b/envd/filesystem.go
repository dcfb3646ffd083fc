package envd

import (
	"net/http"

	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
)

// mountFilesystem adds the service for files.
func mountFilesystem(*http.ServeMux, Config, *wire.Schema) {}
