package blobtest

import (
	"context"
	"slices"
	"testing"
	"time"
)

// Walker lists the objects below a folder: see blob.Store.
type Walker interface {
	Walk(ctx context.Context, folder string, f func(name string, changed time.Time) error) error
}

// Names returns the names of all objects below some folders, sorted.
func Names(t testing.TB, store Walker, folders ...string) []string {
	t.Helper()
	var all []string
	for _, folder := range folders {
		must(t, store.Walk(t.Context(), folder, func(name string, _ time.Time) error {
			all = append(all, name)
			return nil
		}))
	}
	slices.Sort(all)
	return all
}
