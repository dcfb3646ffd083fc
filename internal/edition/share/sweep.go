package share

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol/fault"
)

var errMany = errors.New("there are more")

// List returns the editions in the blob store, at most maxListed of them. The image of one may be
// missing, if it was too large.
func (s *Share) List(ctx context.Context) (all []string, err error) {
	err = s.o.Blobs.Walk(ctx, editions, func(name string, _ time.Time) error {
		if len(all) == maxListed {
			return errMany
		}
		all = append(all, path.Base(name))
		return nil
	})
	if errors.Is(err, errMany) {
		err = nil
	}
	return all, err
}

// Sweep removes the editions that nothing needs, and files of no edition, if they were put there before
// a time. It returns the number of objects that it has removed.
func (s *Share) Sweep(ctx context.Context, needed map[string]bool, before time.Time) (
	n int, err error,
) {
	all, err := s.List(ctx)
	if err != nil || len(all) == maxListed {
		return 0, err
	}
	files := map[string]bool{}
	for _, id := range all {
		if one, ok := edition.Parse(id); ok && needed[id] {
			files[path.Join(runtimes, one.Runtime)] = true
			files[path.Join(images, one.Image)] = true
		}
	}
	var gone []string
	for _, folder := range []string{editions, runtimes, images} {
		err := s.o.Blobs.Walk(ctx, folder, func(name string, changed time.Time) error {
			if !changed.Before(before) || needed[path.Base(name)] || files[path.Dir(name)] ||
				len(gone) == maxListed {
				return nil
			}
			gone = append(gone, name)
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	for _, last := range []bool{false, true} { // descriptions first
		for _, name := range gone {
			if strings.HasSuffix(name, "/"+content) != last {
				continue
			}
			if err := s.o.Blobs.Remove(ctx, name); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// checkRoom checks that a file takes at most a part of the free space.
func checkRoom(dir string, bytes int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	if free := int64(st.Bavail) * st.Bsize; bytes > free/freeShare {
		return fault.New(fault.Exhausted, op,
			"the runtime or image of the session takes %d MiB, and the node has %d MiB free",
			bytes>>20, free>>20)
	}
	return nil
}
