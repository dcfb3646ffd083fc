package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
)

// A cell that leaves too many processes loses them, and no others, before its reply. Other processes
// continue, unless they were stopped before.
func TestLeftoversOfACell(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	const kept, halted, many = "1000.25", "1000.375", "1000.75"
	r.run(1, 1, "bg sleep "+kept+" & sleep "+kept+" & wait")
	r.run(1, 1, "bg sh -c 'kill -STOP $$; exec sleep "+halted+"'")
	isStopped := func(p process.Info) bool { return p.Stopped }
	agenttest.Eventually(t, "a process is stopped", func() bool {
		return slices.ContainsFunc(r.marked(halted), isStopped)
	})
	agenttest.Eventually(t, "the first cell's processes run", func() bool { return r.count(kept) >= 3 })
	before, began := r.count(kept), time.Now()
	agenttest.Eventually(t, "start times differ", func() bool { return time.Since(began) > 50*time.Millisecond })
	out, _ := r.run(1, 2, fmt.Sprintf("sh for i in $(seq %d); do sleep %s & done", wire.MaxLeft+20, many))
	if !strings.HasSuffix(out, fmt.Sprintf("a cell may leave %d.\n", wire.MaxLeft)) {
		t.Errorf("no notice: %q", out)
	}
	if n := r.count("sleep " + many); n != 0 {
		t.Errorf("%d processes of the second cell are left", n)
	}
	if n := r.count(kept); n != before {
		t.Errorf("%d of %d processes of the first cell are left", n, before)
	}
	if slices.ContainsFunc(r.marked(kept), isStopped) {
		t.Errorf("processes of the first cell are stopped: %+v", r.marked(kept))
	}
	if !slices.ContainsFunc(r.marked(halted), isStopped) {
		t.Errorf("a stopped process continues: %+v", r.marked(halted))
	}
	if out, _ := r.run(1, 3, "out on"); out != "on" {
		t.Errorf("the next cell: %q", out)
	}
}

// Processes that become more slowly are ended too, long after the cell that has left them.
func TestLeftoversGrowSlowly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.kernel(1, "test")
	const mark = "1000.125"
	r.run(1, 1, fmt.Sprintf("bg while :; do sleep %s & sleep 0.05; done", mark))
	notice := fmt.Sprintf("a cell may leave %d.\n", wire.MaxLeft)
	agenttest.Eventually(t, "the notice", func() bool {
		return strings.HasSuffix(r.sink.Text(1, 1), notice)
	})
	agenttest.Eventually(t, "the end of all", func() bool { return r.count(mark) == 0 })
}
