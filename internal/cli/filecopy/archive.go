package filecopy

import (
	"archive/tar"
	"io"

	"github.com/sandgate/sandgate/protocol/fault"
)

// archive reads an archive of a sandbox. A few bytes of a sparse entry stand for content of any
// size, which would fill the user's disk, so that content which the archive does not contain is
// refused.
type archive struct {
	*tar.Reader
	source   *counted
	expanded int64
}

func newArchive(r io.Reader) *archive {
	source := &counted{Reader: r}
	return &archive{Reader: tar.NewReader(source), source: source}
}

// Read reads the content of the entry. Errors: Malformed for sparse content.
func (a *archive) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if a.expanded += int64(n); a.expanded > a.source.n {
		return 0, fault.New(fault.Malformed, "cp", "the archive has a sparse file, which is refused")
	}
	return n, err
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}
