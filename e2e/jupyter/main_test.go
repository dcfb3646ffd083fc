// Package jupyter runs unmodified clients of Jupyter against a server: the packages of JupyterLab,
// Debian's Jupyter Server, nbclient and jupyter_kernel_test.
package jupyter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/e2e"
)

const settings = `
pool: {size: 3}
limits: {memory: 1GiB}
`

// started is set when the shared server is started.
var started atomic.Bool

// shared starts the server of the tests that do not change it, once.
var shared = sync.OnceValues(func() (*e2e.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	started.Store(true)
	return e2e.Start(ctx, settings)
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
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

// server returns the shared server.
func server(t *testing.T) *e2e.Server {
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

// checks runs suites of checks with a version of JupyterLab's packages. Each check is a subtest.
func checks(t *testing.T, s *e2e.Server, services, base string, suites ...string) {
	t.Helper()
	cmd := exec.CommandContext(deadline(t), "node", append([]string{"checks/run.mjs"}, suites...)...)
	cmd.Env = append(os.Environ(), "SERVICES="+services, "BASE="+s.URL+base, "TOKEN="+s.Token)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	ran := 0
	for lines := bufio.NewScanner(out); lines.Scan(); ran++ {
		var l struct {
			Name, Error string
			OK          bool
			MS          int
		}
		check(t, json.Unmarshal(lines.Bytes(), &l))
		t.Run(l.Name, func(t *testing.T) {
			if !l.OK {
				t.Errorf("after %d ms: %s", l.MS, l.Error)
			}
		})
	}
	if err := cmd.Wait(); err != nil || ran == 0 {
		t.Errorf("the program ended after %d checks: %v", ran, err)
	}
	if t.Failed() {
		t.Log(stderr.String())
	}
}
