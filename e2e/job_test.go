package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image/png"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// TestMainJob uses Sandgate for its main purpose, with a real table: upload, group,
// draw, interrupt, continue.
func TestMainJob(t *testing.T) {
	s := open(t, server)
	table, err := os.Open("../node_modules/vega-datasets/data/seattle-weather.csv")
	check(t, err)
	defer table.Close()
	file, err := s.client.Upload(s.ctx, s.id, "data/seattle-weather.csv", 0, table)
	check(t, err)
	if info, _ := table.Stat(); file.Size != info.Size() {
		t.Fatalf("%d bytes arrived of %d", file.Size, info.Size())
	}

	out := s.run("ok", `
import pandas as pd
df = pd.read_csv("data/seattle-weather.csv", parse_dates=["date"])
means = df.groupby("weather")["temp_max"].agg(["count", "mean"]).round(2)
means`)
	html := text(t, out.messages[message.ExecuteResultType][0], "text/html")
	// The figures were calculated from the table with awk.
	contains(t, html, "<table", "<th>sun</th>", "<td>640</td>", "<th>snow</th>", "<td>26</td>")

	out = s.run("ok", `
import matplotlib.pyplot as plt
ax = means["mean"].plot.bar(title="Warmest hour by weather")
plt.show()`)
	raw, err := base64.StdEncoding.DecodeString(text(t, out.messages[message.DisplayDataType][0],
		"image/png"))
	check(t, err)
	picture, err := png.Decode(bytes.NewReader(raw))
	check(t, err)
	if b := picture.Bounds(); b.Dx() < 300 || b.Dy() < 200 {
		t.Errorf("the figure is %v", b)
	}

	cell := s.begin("n = 1\nprint('looping', flush=True)\nwhile True: n += 1")
	asked := false
	out = s.collect(cell, func(r frame.Record) {
		if r.Kind == frame.KindStdout && !asked {
			asked = true
			check(t, s.kernel.Interrupt(s.ctx, 0))
		}
	})
	if out.reply.Status != "error" || out.reply.EName != "KeyboardInterrupt" {
		t.Fatalf("the loop ended with %+v", out.reply)
	}
	if got := s.run("ok", "n > 0 and len(df)").result(t); got != "1461" {
		t.Errorf("after the interrupt: %s", got)
	}
	if strings.Contains(server.Log(), server.Token) {
		t.Error("the server's log has the token")
	}
}

// plain returns an error's traceback without colours.
func plain(content json.RawMessage) string {
	var e message.Error
	if err := json.Unmarshal(content, &e); err != nil {
		return err.Error()
	}
	return regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(strings.Join(e.Traceback, "\n"),
		"")
}

// TestPythonLikeJupyter runs cells that people know from notebooks, through the
// public interface.
func TestPythonLikeJupyter(t *testing.T) {
	s := open(t, server)
	for _, c := range []struct{ name, code, stdout, stderr, result string }{
		{name: "state", code: "x = 41", stdout: ""},
		{name: "last expression", code: "x + 1", result: "42"},
		{name: "underscore", code: "_ + 1", result: "43"},
		{
			name:   "streams in order",
			code:   "import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')",
			stdout: "a\nc\n", stderr: "b\n",
		},
		{
			name: "subprocess", code: "import os\nprint('1')\n_ = os.system('echo 2')\nprint('3')",
			stdout: "1\n2\n3\n",
		},
		{name: "shell", code: "!echo shell", stdout: "shell\n"},
		{
			name: "c code", code: "import ctypes\nprint('py')\n_ = ctypes.CDLL(None).puts(b'c')\nctypes.CDLL(None).fflush(None);", stdout: "py\nc\n",
		},
		{
			name: "top-level await", code: "import asyncio\nawait asyncio.sleep(0, 'awaited')",
			result: "'awaited'",
		},
		{
			name: "asyncio.run", code: "async def f(): return 'ran'\nasyncio.run(f())",
			result: "'ran'",
		},
		{name: "magic", code: "%cd /tmp\n%pwd", stdout: "/tmp\n", result: "'/tmp'"},
		{name: "cell magic", code: "%%bash\necho $((2+3))", stdout: "5\n"},
		{name: "unicode", code: "print('größe 测试 🙂')", stdout: "größe 测试 🙂\n"},
		{name: "main", code: "__name__", result: "'__main__'"},
	} {
		out := s.run("ok", c.code)
		if out.stdout != c.stdout || out.stderr != c.stderr {
			t.Errorf("%s: stdout %q, stderr %q", c.name, out.stdout, out.stderr)
		}
		if c.result != "" {
			if got := out.result(t); got != c.result {
				t.Errorf("%s: result %s, want %s", c.name, got, c.result)
			}
		}
	}

	out := s.run("error", "def f():\n    return 1/0\nf()")
	if out.reply.EName != "ZeroDivisionError" {
		t.Errorf("error %+v", out.reply)
	}
	contains(t, plain(out.messages[message.ErrorType][0]), "return 1/0", "line 2")
	if strings.Contains(string(out.messages[message.ErrorType][0]), "/opt/sandgate") {
		t.Error("the traceback has frames of the driver")
	}

	reply, err := s.kernel.Complete(s.ctx, "import os; os.getp", 18)
	check(t, err)
	found := false
	for _, m := range reply.Matches {
		found = found || strings.HasSuffix(m.Text, "getpid")
	}
	if !found {
		t.Errorf("completion gave %+v", reply.Matches)
	}
	about := protocol.Complete{Code: "len", Cursor: 3}
	if reply, err = s.kernel.Inspect(s.ctx, about); err != nil || !reply.Found {
		t.Errorf("inspection gave %+v, %v", reply, err)
	}
	if reply, err = s.kernel.IsComplete(s.ctx, "for i in range(3):"); err != nil ||
		reply.IsComplete != "incomplete" {
		t.Errorf("is_complete gave %+v, %v", reply, err)
	}

	cell := s.begin("name = input('who? ')\nprint('hello', name)")
	out = s.collect(cell, func(r frame.Record) {
		if r.Kind == frame.KindMessage && bytes.Contains(r.Payload, []byte(`"input_request"`)) {
			check(t, s.kernel.Input(s.ctx, protocol.InputReply{Cell: r.Cell, Value: "Ada"}))
		}
	})
	contains(t, out.stdout, "hello Ada")

	check(t, s.kernel.Restart(s.ctx))
	if out := s.run("error", "x"); out.reply.EName != "NameError" {
		t.Errorf("after a restart: %+v", out.reply)
	}
}

// TestClonesDiffer takes two sandboxes of one snapshot and checks that no
// value of one can be guessed from the other.
func TestClonesDiffer(t *testing.T) {
	code := `
import os, random, socket, tempfile, uuid
import numpy as np
print(random.random(), np.random.rand(), uuid.uuid4(), os.urandom(8).hex(), socket.gethostname(), tempfile.mktemp())`
	a, b := strings.Fields(open(t, server).run("ok", code).stdout), strings.Fields(open(t,
		server).run("ok", code).stdout)
	for i := range a {
		if a[i] == b[i] {
			t.Errorf("both sandboxes print %s", a[i])
		}
	}
}
