// Package web holds the built web application.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:app/dist
var dist embed.FS

// Site returns the web application's files, each packed as name.gz; nil when
// the program was compiled without `make build`.
func Site() fs.FS {
	site, err := fs.Sub(dist, "app/dist/site")
	if err != nil {
		return nil
	}
	if _, err := fs.Stat(site, "index.html.gz"); err != nil {
		return nil
	}
	return site
}
