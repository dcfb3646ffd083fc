// Package e2b runs E2B's own SDKs, unmodified, against a server. The checks are the JavaScript
// programs in checks.
package e2b

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/internal/testenv"
)

// settings are those of the servers of the checks: the domain of the sandboxes, the address with TLS
// and the file with its certificate.
const settings = `
pool: {size: 3}
limits: {memory: 1GiB}
e2b_domain: %q
egress: {allow: [example.com]}
webhooks: {allow: [127.0.0.0/8]}
insecure_e2b_interpreter_without_token: true
tls: {listen: %q, certificates: [%q]}
`

// A deployment is a server with TLS for the domain mode.
type deployment struct {
	*e2e.Server
	// key is the server's token in the form that the SDKs require.
	key    string
	domain string // with its port
	// folder has the certificate, which signs itself, in the file certificate.
	folder, certificate string
}

// deploy starts a server.
func deploy(ctx context.Context) (*deployment, error) {
	address, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	d := &deployment{domain: net.JoinHostPort("sbx.test", port)}
	if d.folder, err = os.MkdirTemp("", "sandgate-e2b-"); err != nil {
		return nil, err
	}
	chain, key, err := testenv.Certificate(time.Now().Add(24*time.Hour), "sbx.test", "*.sbx.test")
	if err != nil {
		return nil, err
	}
	d.certificate = filepath.Join(d.folder, "certificate.pem")
	both := filepath.Join(d.folder, "both.pem") // only root can read it
	if err := errors.Join(os.WriteFile(d.certificate, chain, 0o644),
		os.WriteFile(both, append(chain, key...), 0o600)); err != nil {
		return nil, err
	}
	d.Server, err = e2e.Start(ctx, fmt.Sprintf(settings, d.domain, address, both))
	if err != nil {
		return nil, err
	}
	d.key = "e2b_" + hex.EncodeToString([]byte(d.Token))
	return d, nil
}

func (d *deployment) stop() error { return errors.Join(d.Stop(), os.RemoveAll(d.folder)) }

// started is set when the shared server is started.
var started atomic.Bool

// shared starts the server of the tests that do not change it, once.
var shared = sync.OnceValues(func() (*deployment, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	started.Store(true)
	return deploy(ctx)
})

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		code := m.Run()
		if !started.Load() {
			return code
		}
		s, err := shared()
		if err != nil {
			return 1
		}
		if code != 0 {
			fmt.Fprintln(os.Stderr, s.Complaints())
		}
		if err := s.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

// server returns the shared server.
func server(t *testing.T) *deployment {
	t.Helper()
	s, err := shared()
	check(t, err)
	return s
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
