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
	"github.com/sandgate/sandgate/stream"
)

// TestPythonDriver runs the driver's own tests in a sandbox, with the image's
// Python and IPython: more than 200 cells, interrupts and questions.
func TestPythonDriver(t *testing.T) {
	s := open(t, server)
	files, err := filepath.Glob("../langs/python/*/*.py")
	check(t, err)
	for _, f := range append(files, "../langs/python/manifest.json") {
		content, err := os.Open(f)
		check(t, err)
		rel, err := filepath.Rel("../langs", f)
		check(t, err)
		_, err = s.client.Upload(s.ctx, s.id, rel, 0, content)
		content.Close()
		check(t, err)
	}
	p, err := s.conn.Start(s.ctx, protocol.ChannelOpen{
		Session: s.id, Kind: "process", Argv: []string{"/usr/bin/python3", "python/tests/run.py", "-v"},
	})
	check(t, err)
	var out []byte
	for {
		r, err := p.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fails.add(t.Name(), fmt.Errorf("%w; the last of what came is %q", err, out[max(0, len(out)-300):]))
			t.Fatalf("%v; until then came:\n%s", err, out)
		}
		if r.Kind == stream.KindStdout || r.Kind == stream.KindStderr {
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

// TestJavaDriver sends the driver, in a sandbox, requests that are none.
func TestJavaDriver(t *testing.T) {
	s := open(t, server)
	content, err := os.Open("../langs/java/tests/test_requests.py")
	check(t, err)
	defer content.Close()
	_, err = s.client.Upload(s.ctx, s.id, "test_requests.py", 0, content)
	check(t, err)
	p, err := s.conn.Start(s.ctx, protocol.ChannelOpen{Session: s.id, Kind: "process", Argv: []string{"/usr/bin/python3", "test_requests.py", "-v"}})
	check(t, err)
	var out []byte
	for {
		r, err := p.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v; until then came:\n%s", err, out)
		}
		if r.Kind == stream.KindStdout || r.Kind == stream.KindStderr {
			out = append(out, r.Payload...)
		}
	}
	if e := p.Exit(); e == nil || e.Code != 0 {
		t.Errorf("ended with %+v:\n%s", e, out)
	}
}
