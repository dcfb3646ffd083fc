package templates

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"path"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxEntries bounds the files of one archive.
	maxEntries = 20_000
	// maxUnpacked bounds the bytes of one archive without compression.
	maxUnpacked = 1 << 30
)

// write writes the tar from which the node builds the template. archive returns the archive with a
// hash.
func (p plan) write(w io.Writer, archive func(hash string) ([]byte, bool)) error {
	text, err := json.Marshal(p.spec)
	if err != nil {
		return fault.Wrap(fault.Internal, "e2b.template", err)
	}
	out := tar.NewWriter(w)
	if err := out.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: "template.json", Size: int64(len(text)), Mode: 0o644,
	}); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	for _, c := range p.copies {
		content, ok := archive(c.hash)
		if !ok {
			return missing(c)
		}
		if err := c.write(out, content); err != nil {
			return err
		}
	}
	return out.Close()
}

// missing returns the error for a COPY step whose files are not in the store.
func missing(c copyStep) error {
	return invalid("filesHash", "the files of COPY %.80s were not uploaded to this gateway",
		c.src)
}

// write copies the files of an archive.
func (c copyStep) write(out *tar.Writer, archive []byte) error {
	files := 0
	if err := each(archive, func(*tar.Header, io.Reader) error {
		files++
		return nil
	}); err != nil {
		return err
	}
	copied := 0
	err := each(archive, func(h *tar.Header, r io.Reader) error {
		to, ok := c.target(path.Clean(h.Name), files == 1)
		if !ok {
			return nil
		}
		copied++
		mode := h.Mode & 0o777
		if c.mode != 0 {
			mode = c.mode
		}
		if err := out.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: "files" + to, Size: h.Size, Mode: mode,
			Format: tar.FormatPAX,
		}); err != nil {
			return err
		}
		_, err := io.Copy(out, r)
		return err
	})
	if err == nil && copied == 0 {
		return invalid("steps", "COPY %.80s found no files", c.src)
	}
	return err
}

// each calls do for the regular files of a tar, which may be compressed. Errors: InvalidArgument for
// other kinds of files, Malformed, TooLarge.
func each(archive []byte, do func(h *tar.Header, r io.Reader) error) error {
	const op = "e2b.template"
	malformed := func(err error) error {
		return &fault.Error{
			Kind: fault.Malformed, Op: op, Message: "the uploaded files are not a tar", Err: err,
		}
	}
	var in io.Reader = bufio.NewReader(bytes.NewReader(archive))
	if bytes.HasPrefix(archive, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return malformed(err)
		}
		in = z
	}
	limited := &io.LimitedReader{R: in, N: maxUnpacked}
	t := tar.NewReader(limited)
	for n := 0; ; n++ {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return nil
		case limited.N <= 0 || n >= maxEntries:
			return fault.New(fault.TooLarge, op, "a COPY has at most %d files and %d bytes",
				maxEntries, maxUnpacked)
		case err != nil:
			return malformed(err)
		case h.Typeflag == tar.TypeDir:
			continue
		case h.Typeflag != tar.TypeReg:
			return invalid("steps", "%.80q is not a regular file; copy with resolveSymlinks", h.Name)
		case !inside(h.Name):
			return invalid("steps", "%.80q is not a path below the folder of the build", h.Name)
		}
		if err := do(h, t); err != nil {
			return err
		}
	}
}

// inside reports whether a name in an archive stays below its root.
func inside(name string) bool {
	clean := path.Clean(name)
	return !path.IsAbs(clean) && clean != ".." && !strings.HasPrefix(clean, "../")
}
