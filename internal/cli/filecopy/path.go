package filecopy

import (
	"context"
	"path"
	"strings"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
)

// Destination is the path of a file that is moved or copied to a path of a
// session: into a folder that is there, or is meant by a slash.
func Destination(ctx context.Context, c *client.Client, session, from, to string) (string, error) {
	if to == "" || strings.HasSuffix(to, "/") {
		return path.Join(to, path.Base(from)), nil
	}
	f, err := c.Stat(ctx, session, to)
	switch {
	case err == nil && f.Dir:
		return path.Join(to, path.Base(from)), nil
	case err != nil && !fault.Is(err, fault.NotFound):
		return "", err
	}
	return to, nil
}

// Remote splits SESSION:PATH. A path here that has a colon is written with ./
// before it.
func Remote(s string) (session, path string, ok bool) {
	session, path, ok = strings.Cut(s, ":")
	return session, path, ok && session != "" && !strings.ContainsAny(session, "/.")
}
