// Package e2b runs E2B's own SDKs, unmodified, against a server. The checks are the JavaScript
// programs in checks.
package e2b

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/e2e"
)

// settings are those of the servers of the checks. %s is the domain of the sandboxes.
const settings = `
pool: {size: 3}
limits: {memory: 1GiB}
e2b_domain: %q
egress: {allow: [example.com]}
`

// A deployment is a server, and a proxy in front of it with TLS for the domain mode.
type deployment struct {
	*e2e.Server
	// key is the server's token in the form that the SDKs require.
	key    string
	domain string // with its port
	proxy  *proxy
}

// deploy starts a server.
func deploy(ctx context.Context) (*deployment, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	domain := net.JoinHostPort("sbx.test", port)
	s, err := e2e.Start(ctx, fmt.Sprintf(settings, domain))
	if err != nil {
		l.Close()
		return nil, err
	}
	p, err := newProxy(l, s.URL, s.Dir)
	if err != nil {
		return nil, err
	}
	return &deployment{s, "e2b_" + hex.EncodeToString([]byte(s.Token)), domain, p}, nil
}

func (d *deployment) stop() error {
	d.proxy.close()
	return d.Stop()
}

// started is set when the shared server is started.
var started atomic.Bool

// shared starts the server of the tests that do not change it, once.
var shared = sync.OnceValues(func() (*deployment, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
