package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// openWith is open for a session with limits, a template or other parameters.
func openWith(t *testing.T, s *Server, p protocol.SessionCreate) *session {
	t.Helper()
	ctx := deadline(t)
	c, err := wire.New(s.URL, s.Token, wire.Options{})
	check(t, err)
	made, err := c.CreateSession(ctx, p)
	check(t, err)
	t.Cleanup(func() { c.DeleteSession(context.WithoutCancel(ctx), made.ID) })
	conn, err := c.Connect(ctx)
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	out := &session{t: t, ctx: ctx, client: c, conn: conn, id: made.ID}
	if len(made.Channels) > 0 {
		out.kernel, err = conn.Kernel(ctx, made.ID, made.Channels[0].ID)
		check(t, err)
	}
	return out
}

// events returns the limit events of a cell.
func limitEvents(t *testing.T, o output) (all []protocol.Reached) {
	t.Helper()
	for _, text := range o.events {
		var e struct {
			Event string `json:"event"`
			protocol.Reached
		}
		check(t, json.Unmarshal([]byte(text), &e))
		if e.Event == "limit" {
			all = append(all, e.Reached)
		}
	}
	return all
}

// TestLimitsInside checks the limits inside the sandbox: the program gets an error
// that the language shows, and the session continues. A session that exceeds a limit
// outside the sandbox is lost, and the reason names the limit.
func TestLimitsInside(t *testing.T) {
	limits := protocol.Limits{
		MemoryBytes: 512 << 20, Processes: 48, OpenFiles: 128, DiskBytes: 32 << 20,
		TmpBytes: 2 << 20, Inodes: 100,
	}
	s := openWith(t, server, protocol.SessionCreate{Language: "python", Limits: &limits})
	info, err := s.client.Session(s.ctx, s.id)
	check(t, err)
	if l := info.Limits; l == nil || l.Processes != 48 || l.DiskBytes != 32<<20 || l.CPUs == 0 ||
		info.Usage == nil || info.Usage.MemoryBytes == 0 ||
		info.Usage.MemoryMaxBytes != l.SandboxBytes() {
		t.Errorf("the session shows %+v, %+v", info.Limits, info.Usage)
	}
	for _, x := range []struct{ name, code, ename, evalue, after string }{
		{
			"processes", "import os\npids = []\nfor i in range(1000): pids.append(os.posix_spawn('/bin/sleep', ['sleep', '1000'], {}))", "BlockingIOError", "temporarily unavailable", "for p in pids: os.kill(p, 9); os.waitpid(p, 0)\nassert 20 < len(pids) < 48, len(pids)",
		},
		{
			"threads", "import threading\nhold = threading.Event()\nthreads = []\nfor i in range(1000):\n    t = threading.Thread(target=hold.wait)\n    t.start()\n    threads.append(t)", "RuntimeError", "can't start new thread", "hold.set()\nfor t in threads: t.join()",
		},
		{
			"open files", "fs = []\nwhile True: fs.append(open('/dev/null'))", "OSError",
			"Too many open files", "n = len(fs); fs.clear(); assert 20 < n < 128, n",
		},
		{
			"disk", "f = open('big', 'wb', buffering=0)\nfor i in range(1000): f.write(bytes(1 << 20))", "OSError", "No space left", "f.close(); os.remove('big'); assert 20 < i <= 32, i",
		},
		{
			"tmp", "f = open('/tmp/big', 'wb', buffering=0)\nfor i in range(1000): f.write(bytes(1 << 18))", "OSError", "No space left", "f.close(); os.remove('/tmp/big'); assert 4 < i <= 8, i",
		},
		{
			"inodes of the disk", "for i in range(1000): open(f'f{i}', 'w').close()", "OSError",
			"No space left", "for j in range(i): os.remove(f'f{j}')\nassert 20 < i < 100, i",
		},
		{
			"inodes of /tmp", "for i in range(1000): open(f'/tmp/f{i}', 'w').close()", "OSError",
			"No space left", "for j in range(i): os.remove(f'/tmp/f{j}')\nassert 50 < i < 100, i",
		},
	} {
		out := s.run("error", x.code)
		if out.reply.EName != x.ename || !strings.Contains(out.reply.EValue, x.evalue) {
			t.Errorf("%s: %s: %s", x.name, out.reply.EName, out.reply.EValue)
		}
		s.run("ok", x.after)
	}

	// Outside: a program that uses as much memory as it can get.
	cell, err := s.kernel.Execute(s.ctx,
		"import subprocess\nsubprocess.run(['python3', '-c', 'b = []\\nwhile True: b.append(bytearray(b\"x\" * (8 << 20)))'])", wire.ExecuteOptions{})
	for err == nil {
		_, err = cell.Next(s.ctx)
	}
	info, err = s.client.Session(s.ctx, s.id)
	check(t, err)
	if info.State != "lost" || info.Reason != "memory" || info.Reached == nil ||
		info.Reached.Limit != "memory_bytes" || info.Reached.Max != info.Limits.SandboxBytes() ||
		info.Reached.Lost == "" {
		t.Errorf("over the memory: %+v, %+v", info, info.Reached)
	}
}

// TestLimitsOfRunning checks the limits of CPU, output and time of a cell.
func TestLimitsOfRunning(t *testing.T) {
	limits := protocol.Limits{CPUs: 0.5, OutputBytesPerSecond: 1 << 20, CellSeconds: 10}
	s := openWith(t, server, protocol.SessionCreate{Language: "python", Limits: &limits})

	// Two processes run for two seconds with half a processor.
	use := func() int64 {
		v, err := s.client.Session(s.ctx, s.id)
		check(t, err)
		return v.Usage.CPUMS
	}
	before, begin := use(), time.Now()
	s.run(
		"ok", "import os, time\npid = os.fork()\nend = time.time() + 2\nwhile time.time() < end: pass\nif not pid: os._exit(0)\nos.waitpid(pid, 0)")
	used, took := use()-before, time.Since(begin).Milliseconds()
	if used > took*6/10+100 {
		t.Errorf("%d ms of processor time in %d ms, with half a processor", used, took)
	}

	// A cell that exceeds its time is interrupted, and its event names the limit.
	out := s.run("error", "x = 42\nwhile True: time.sleep(0.01)")
	if out.reply.EName != "KeyboardInterrupt" {
		t.Errorf("a cell over its time: %+v", out.reply)
	}
	if e := limitEvents(t, out); len(e) != 1 || e[0].Limit != "cell_seconds" || e[0].Max != 10 ||
		e[0].Lost == "" {
		t.Errorf("the events are %v", out.events)
	}

	// A flood arrives completely, at its rate, and another channel does not wait.
	// The flood has 3 MiB: one at once, and another one in the window.
	cell := s.begin("for i in range(3072): print('x' * 1023)")
	begin = time.Now()
	p, err := s.conn.OpenChannel(s.ctx, protocol.ChannelOpen{
		Session: s.id, Kind: "process",
		Argv: []string{"echo", "beside"},
	})
	check(t, err)
	v, err := s.conn.Attach(s.ctx, s.id, p.ID, wire.AttachOptions{})
	check(t, err)
	if text := readAll(t, s, v); !strings.Contains(text, "beside") {
		t.Errorf("beside the flood: %q", text)
	}
	beside := time.Since(begin)
	out = s.collect(cell, nil)
	took = time.Since(begin).Milliseconds()
	if len(out.stdout) != 3072*1024 {
		t.Errorf("%d bytes arrived", len(out.stdout))
	}
	if took < 900 {
		t.Errorf("3 MiB took %d ms at 1 MiB a second", took)
	}
	if beside.Milliseconds() > took {
		t.Errorf("another channel waited %s", beside)
	}
	if e := limitEvents(t, out); len(e) != 1 || e[0].Limit != "output_bytes_per_second" ||
		e[0].Max != 1<<20 {
		t.Errorf("the events are %v", out.events)
	}
	if got := s.run("ok", "x").result(t); got != "42" {
		t.Errorf("afterwards x is %s", got)
	}
}

func readAll(t *testing.T, s *session, v *wire.Viewer) string {
	t.Helper()
	var text strings.Builder
	for {
		r, err := v.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		check(t, err)
		if r.Kind == frame.KindStdout {
			text.Write(r.Payload)
		}
	}
}

// TestLimitsAreBounded checks that no session gets more than the server allows, and
// that the end of a lifetime names its reason.
func TestLimitsAreBounded(t *testing.T) {
	ctx := deadline(t)
	c, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	for field, p := range map[string]protocol.SessionCreate{
		"limits.memory_bytes":    {Limits: &protocol.Limits{MemoryBytes: 1 << 40}},
		"limits.cpus":            {Limits: &protocol.Limits{CPUs: 1000}},
		"limits.processes":       {Limits: &protocol.Limits{Processes: -1}},
		"limits.open_files":      {Limits: &protocol.Limits{OpenFiles: 1}},
		"limits.cell_seconds":    {Limits: &protocol.Limits{CellSeconds: -1}},
		"idle_pause_seconds":     {IdlePauseSeconds: 1 << 40},
		"idle_hibernate_seconds": {IdleHibernateSeconds: -2},
		"template":               {Template: "no-such"},
	} {
		_, err := c.CreateSession(ctx, p)
		if got := fault.PublicOf(err); got.Field != field {
			t.Errorf("%s: %+v", field, got)
		}
	}
	s := openWith(t, server, protocol.SessionCreate{Language: "python", LifetimeSeconds: 10})
	cell := s.begin("import time\ntime.sleep(1000)")
	for err == nil {
		_, err = cell.Next(s.ctx)
	}
	info, err := s.client.Session(s.ctx, s.id)
	check(t, err)
	if info.State != "lost" || info.Reason != "expired" || info.Reached == nil ||
		info.Reached.Limit != "lifetime_seconds" || info.Reached.Max != 10 {
		t.Errorf("over its lifetime: %+v, %+v", info, info.Reached)
	}
}
