package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/sandgate/sandgate/fault"
)

// localError is about a file on this machine.
func localError(err error) error {
	kind := fault.InvalidArgument
	switch {
	case errors.Is(err, os.ErrNotExist):
		kind = fault.NotFound
	case errors.Is(err, os.ErrPermission):
		kind = fault.PermissionDenied
	}
	return &fault.Error{Kind: kind, Op: "file", Message: err.Error(), Err: err}
}

// remote splits SESSION:PATH. A path here that has a colon is written with ./
// before it.
func remote(s string) (session, path string, ok bool) {
	session, path, ok = strings.Cut(s, ":")
	return session, path, ok && session != "" && !strings.ContainsAny(session, "/.")
}
