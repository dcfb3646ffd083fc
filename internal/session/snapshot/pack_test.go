package snapshot

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestUnpackHostile checks that an archive that is not a parked session writes nothing.
func TestUnpackHostile(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "in")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../x", "/x", "session/../../x", "other/x"} {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(packNamed(w, name)) }()
		if err := Unpack(context.Background(), r, dir); err == nil {
			t.Errorf("%q was unpacked", name)
		}
		_ = r.Close()
	}
	if left, _ := os.ReadDir(outside); len(left) != 1 {
		t.Errorf("it wrote %v", left)
	}
}

func packNamed(w io.Writer, name string) error {
	z, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	err = t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: 1, Typeflag: tar.TypeReg})
	if err == nil {
		_, err = t.Write([]byte("x"))
	}
	return errors.Join(err, t.Close(), z.Close())
}
