package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestPythonDriver runs the driver's own tests in a sandbox, with the image's
// Python and IPython: more than 200 cells, interrupts and requests for input.
func TestPythonDriver(t *testing.T) {
	for _, part := range []string{"1/2", "2/2"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			driverTests(t, []string{"python/*/*.py", "python/manifest.json"}, "python/tests/run.py",
				"--part="+part, "-v")
		})
	}
}

// TestJavaDriver sends the image's Java driver invalid requests.
func TestJavaDriver(t *testing.T) {
	t.Parallel()
	driverTests(t, []string{"java/tests/*.py"}, "java/tests/test_requests.py", "-v")
}

// TestPHPDriver sends the PHP driver invalid requests, and requests to keep variables.
func TestPHPDriver(t *testing.T) {
	for _, file := range []string{"wire.py", "kept.py"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			driverTests(t, []string{"php/driver/*", "php/tests/*.py", "php/manifest.json"},
				"php/tests/"+file)
		})
	}
}

// driverTests runs a driver's tests, which are in Python, in a sandbox. files are
// patterns below langs.
func driverTests(t *testing.T, files []string, argv ...string) {
	t.Helper()
	s := open(t, server)
	for _, pattern := range files {
		found, err := filepath.Glob("../langs/" + pattern)
		check(t, err)
		for _, f := range found {
			content, err := os.Open(f)
			check(t, err)
			rel, err := filepath.Rel("../langs", f)
			check(t, err)
			_, err = s.client.Upload(s.ctx, s.id, rel, 0, content)
			content.Close()
			check(t, err)
		}
	}
	p, err := s.conn.Start(s.ctx, protocol.ChannelOpen{
		Session: s.id, Kind: "process",
		Argv: append([]string{"/usr/bin/python3"}, argv...),
	})
	check(t, err)
	var out []byte
	for {
		r, err := p.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fails.add(t.Name(), fmt.Errorf("%w; the last output is %q", err,
				out[max(0, len(out)-300):]))
			t.Fatalf("%v; the output before it:\n%s", err, out)
		}
		if r.Kind == frame.KindStdout || r.Kind == frame.KindStderr {
			out = append(out, r.Payload...)
		}
	}
	if e := p.Exit(); e == nil || e.Code != 0 {
		t.Errorf("ended with %+v:\n%s", e, out)
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "FAIL: ") || strings.HasPrefix(line, "ERROR: ") {
				fails.add(t.Name(), errors.New(line))
			}
		}
	}
}
