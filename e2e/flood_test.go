package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestFloods prints much output, many small writes, and one long line. A viewer
// that reads gets every byte, an interrupt ends a flood, and the memory of the
// server's processes does not grow. With SANDGATE_FLOOD=1 it prints 200 MB and a
// million writes; otherwise a tenth and a fiftieth of that.
func TestFloods(t *testing.T) {
	flood, writes := 20_000_000, 20_000
	if os.Getenv("SANDGATE_FLOOD") != "" {
		flood, writes = 200_000_000, 1_000_000
	}
	s := open(t, server)
	s.run("ok", "1") // memory that is allocated once stays
	before := map[string]int{}
	for _, name := range []string{"node", "gateway"} {
		pid, err := server.Child(name)
		check(t, err)
		before[name] = resident(t, pid)
	}
	// read counts the bytes that a program prints, and the gaps that the viewer is sent.
	read := func(argv ...string) (bytes, gaps int) {
		p, err := s.conn.Start(s.ctx, protocol.ChannelOpen{Session: s.id, Argv: argv})
		check(t, err)
		defer p.Close()
		for {
			r, err := p.Next(s.ctx)
			check(t, err)
			switch r.Kind {
			case frame.KindStdout:
				bytes += len(r.Payload)
			case frame.KindGap:
				gaps++
			case frame.KindExit:
				return bytes, gaps
			}
		}
	}
	begin := time.Now()
	if got, gaps := read("head", "-c", fmt.Sprint(flood), "/dev/zero"); got != flood || gaps > 0 {
		t.Errorf("a flood arrived with %d bytes and %d gaps", got, gaps)
	}
	t.Logf("%d bytes: %s", flood, time.Since(begin))
	begin = time.Now()
	if got, gaps := read("dd", "if=/dev/zero", "bs=1", "status=none",
		fmt.Sprintf("count=%d", writes)); got != writes || gaps > 0 {
		t.Errorf("writes of one byte arrived with %d bytes and %d gaps", got, gaps)
	}
	t.Logf("%d writes of one byte: %s", writes, time.Since(begin))
	if out := s.run("ok", "print('x' * 10_000_000)"); out.stdout != strings.Repeat("x", 10_000_000)+
		"\n" {
		t.Errorf("a line of 10 MB arrived with %d bytes", len(out.stdout))
	}

	p, err := s.conn.Start(s.ctx, protocol.ChannelOpen{Session: s.id, Argv: []string{"yes"}})
	check(t, err)
	defer p.Close()
	var interrupted time.Time
	for n := 0; ; {
		r, err := p.Next(s.ctx)
		check(t, err)
		if r.Kind == frame.KindExit {
			break
		}
		if n += len(r.Payload); n > 8<<20 && interrupted.IsZero() {
			interrupted = time.Now()
			check(t, p.Signal(s.ctx, "SIGINT"))
		}
	}
	if took := time.Since(interrupted); took > 2*time.Minute {
		t.Errorf("a flood continued for %s after its interrupt", took)
	} else {
		t.Logf("an interrupt ends a flood in %s", took)
	}
	for name, was := range before {
		pid, err := server.Child(name)
		check(t, err)
		if now := resident(t, pid); now > was+64<<20 {
			t.Errorf("the %s grew from %d to %d MiB", name, was>>20, now>>20)
		}
	}
}
