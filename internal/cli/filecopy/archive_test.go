package filecopy

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol/fault"
)

// sparse returns an archive with a sparse file of a size, as GNU tar writes it.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	block := func(b []byte) []byte { return append(b, make([]byte, (512-len(b)%512)%512)...) }
	var records string
	for _, r := range [][2]string{
		{"GNU.sparse.major", "1"},
		{"GNU.sparse.minor", "0"},
		{"GNU.sparse.name", "a/zeros"},
		{"GNU.sparse.realsize", fmt.Sprint(size)},
	} {
		body := " " + r[0] + "=" + r[1] + "\n"
		n := len(body) + 2
		records += fmt.Sprint(n) + body
	}
	head := func(name string, kind byte, size int) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		err := w.WriteHeader(&tar.Header{
			Name: name, Size: int64(size), Mode: 0o644, Format: tar.FormatUSTAR,
		})
		if err != nil {
			t.Fatal(err)
		}
		h := b.Bytes()[:512]
		h[156] = kind
		for i := 148; i < 156; i++ {
			h[i] = ' '
		}
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		return h
	}
	var out []byte
	out = append(out, head("x", 'x', len(records))...)
	out = append(out, block([]byte(records))...)
	out = append(out, head("a/zeros", '0', 512)...)
	out = append(out, block(fmt.Appendf(nil, "1\n%d\n0\n", size))...)
	return append(out, make([]byte, 1024)...)
}

// TestHardening_SparseArchives copies an archive that stands for 1 TiB of zeros.
func TestHardening_SparseArchives(t *testing.T) {
	data := sparse(t, 1<<40)
	h, err := tar.NewReader(bytes.NewReader(data)).Next()
	if err != nil || h.Size != 1<<40 {
		t.Fatalf("the archive is not sparse: %+v, %v", h, err)
	}
	to := filepath.Join(t.TempDir(), "to")
	err = receiveTree(&console.Invocation{Err: io.Discard}, to, bytes.NewReader(data))
	if !fault.Is(err, fault.Malformed) && !fault.Is(err, fault.Unavailable) {
		t.Errorf("receiving: %v", err)
	}
	if info, err := os.Stat(filepath.Join(to, "zeros")); err == nil && info.Size() > 1<<20 {
		t.Errorf("%d bytes were written", info.Size())
	}
	if err := renamed(io.Discard, bytes.NewReader(data)); !fault.Is(err, fault.Malformed) {
		t.Errorf("copying: %v", err)
	}
}
