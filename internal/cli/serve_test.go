package cli

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol/fault"
)

func TestServeRefusals(t *testing.T) {
	c := newCLI(t, nil)
	_, errs, code := c.run(t, "", "serve", "--listen", "0.0.0.0:8080")
	if code != fault.InvalidArgument.Row().Exit ||
		!strings.Contains(errs, "--insecure-listen-without-tls") {
		t.Errorf("a public address: %d, %q", code, errs)
	}
	if _, _, code := c.run(t, "", "serve", "--gateway-user", "root", "--data-dir", t.TempDir(),
		"--run-dir", t.TempDir()); code == 0 {
		t.Error("the gateway would run as root")
	}
}

// TestDrainTimeout: a drain ends after --timeout although the node does not answer.
func TestDrainTimeout(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("unix", (&config.Config{RunDir: dir}).NodeSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	began := time.Now()
	_, errs, code := newCLI(t, nil).run(t, "", "node", "drain", "--run-dir", dir, "--timeout", "50ms")
	if took := time.Since(began); code == 0 || took > 5*time.Minute {
		t.Errorf("the drain ended with %d after %s: %q", code, took, errs)
	}
}
