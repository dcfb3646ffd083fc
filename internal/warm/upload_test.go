package warm

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// acceptingHost accepts every template.
type acceptingHost struct{ Host }

func (acceptingHost) CheckSpec(string, *protocol.TemplateSpec) error { return nil }

// slowImages waits until the caller's context ends.
type slowImages struct{ began chan struct{} }

func (s slowImages) Make(ctx context.Context, _, _ string) ([]string, []kernel.Manifest, []string,
	error,
) {
	s.began <- struct{}{}
	<-ctx.Done()
	return nil, nil, nil, fault.Wrap(fault.KindOf(ctx.Err()), "image.make", ctx.Err())
}

func imageTar(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{templateJSON, "oci/index.json"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: 2, Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHardening_ImageBuildsEndWithTheirCaller: a tenant has one build of an image at a time, another
// tenant still gets one, and a build ends when its caller leaves.
func TestHardening_ImageBuildsEndWithTheirCaller(t *testing.T) {
	images := slowImages{make(chan struct{})}
	cfg := Config{
		DataDir: t.TempDir(), TemplateBytes: 1 << 20, BuildLimit: time.Hour, Images: images,
		Host: acceptingHost{}, Log: slog.New(slog.DiscardHandler), Unpacker: inProcess{},
	}
	if err := os.MkdirAll(cfg.templatesDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	d := definitions{cfg: cfg, builds: tenantlimit.New(tenantlimit.Lookup(tenantlimit.ImageBuilds))}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	receive := func(tenant string) error {
		_, err := d.receive(ctx, tenant, "", "x", bytes.NewReader(imageTar(t)))
		return err
	}
	for _, tenant := range []string{"a", "b"} {
		go func() { done <- receive(tenant) }()
		<-images.began
	}
	for _, tenant := range []string{"a", "c"} {
		if err := receive(tenant); !fault.Is(err, fault.Exhausted) {
			t.Errorf("a further build of %s: %v", tenant, err)
		}
	}
	cancel()
	for range 2 {
		if err := <-done; !fault.Is(err, fault.Canceled) {
			t.Errorf("the caller has left: %v", err)
		}
	}
	if err := receive("a"); !fault.Is(err, fault.Canceled) {
		t.Errorf("an upload whose caller has left: %v", err)
	}
	if n, tenants, _ := d.builds.Counts(); n != 0 || tenants != 0 {
		t.Errorf("%d builds of %d tenants are left", n, tenants)
	}
	left, err := os.ReadDir(cfg.templatesDir())
	if err != nil || len(left) > 0 {
		t.Errorf("there is left %v, %v", left, err)
	}
}

// TestAbuse32_ZerosAreNotWritten: a file whose declared size is over the limit is refused before one
// byte of it is written.
func TestAbuse32_ZerosAreNotWritten(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: templateJSON, Size: 2, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, "{}")
	if err := w.WriteHeader(&tar.Header{Name: "files/x", Size: 1 << 40, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	dir := t.TempDir()
	if _, err := Unpack(&b, dir, 1<<20); !fault.Is(err, fault.TooLarge) {
		t.Errorf("got %v, want too_large", err)
	}
	info, err := os.Stat(dir + "/" + filesFile)
	if err != nil || info.Size() > 1024 {
		t.Errorf("%v was written, %v", info, err)
	}
}
