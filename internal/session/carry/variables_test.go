package carry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// kernels are the kernels of a sandbox, by their numbers on the wire: what each answers.
type kernels struct {
	mu      sync.Mutex
	answers map[uint32]any // a kernel.Kept or an error
	asked   map[uint32]kernel.Keep
	stopped []uint32
}

func (k *kernels) Keep(ctx context.Context, ch uint32, op string,
	p kernel.Keep,
) (kernel.Kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked[ch] = p
	if _, ok := ctx.Deadline(); !ok || op != "keep" {
		return kernel.Kept{}, fmt.Errorf("%s without a time limit", op)
	}
	if err, ok := k.answers[ch].(error); ok {
		return kernel.Kept{}, err
	}
	return k.answers[ch].(kernel.Kept), nil
}

func (k *kernels) interrupt(_ context.Context, ch uint32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = append(k.stopped, ch)
	return nil
}

// TestKeep asks each kernel that runs, and no other, to write its variables to a file of its own. The
// channels of those that have written one record it.
func TestKeep(t *testing.T) {
	t.Parallel()
	k := &kernels{asked: map[uint32]kernel.Keep{}, answers: map[uint32]any{
		1: kernel.Kept{Written: true, Kept: []string{"x"}, KeptCount: 1},
		2: kernel.Kept{Lost: []string{"socket"}, LostCount: 1},
		3: fault.New(fault.Unsupported, "test", "there is no operation"),
		4: fault.Wrap(fault.DeadlineExceeded, "test", context.DeadlineExceeded),
	}}
	kernelOf := func(id string, number uint32) snapshot.Channel {
		return snapshot.Channel{ID: id, Wire: number, Kept: "stale", Queue: &queue.Saved{}}
	}
	all := []snapshot.Channel{
		kernelOf("k1", 1), kernelOf("k2", 2), kernelOf("k3", 3), kernelOf("k4", 4), kernelOf("k5", 0),
		{ID: "t6", Wire: 6},
		{ID: "k7", Wire: 7, Queue: &queue.Saved{}, Exit: &protocol.Exit{}},
	}
	all[1].Queue.Running = &queue.SavedCell{}
	files := &tree{folders: map[string]string{"/home/user": ""}}
	said := keeper{k, k.interrupt, files}.askEach(t.Context(), all)
	if len(said) != 4 || len(k.asked) != 4 || !slices.Equal(k.stopped, []uint32{2}) {
		t.Errorf("%+v, asked %v, stopped %v", said, k.asked, k.stopped)
	}
	if p := k.asked[1]; p.File != "/home/user/.sandgate/kept/k1" || p.Bytes != maxKept/4 ||
		p.Seconds != 30 {
		t.Errorf("%+v", p)
	}
	var kept []string
	for _, c := range all[:5] {
		kept = append(kept, c.Kept)
	}
	// The last one has not started since the upgrade before this one.
	if want := []string{"/home/user/.sandgate/kept/k1", "", "", "", "stale"}; !slices.Equal(kept,
		want) {
		t.Errorf("%q, want %q", kept, want)
	}
	for id, part := range map[string]string{
		"k1": "files and variables (x) are kept, running programs are lost",
		"k2": "files are kept, variables that cannot be kept (socket) and running programs are lost",
		"k3": "variables and running programs are lost; this kernel cannot keep them",
		"k4": "variables and running programs are lost; its kernel did not write them in time",
	} {
		if v := said[id]; !strings.HasSuffix(message(&v), part) {
			t.Errorf("%s: %q", id, message(&v))
		}
	}
	files.home = "/" + strings.Repeat("x", maxPath)
	files.folders[files.home] = ""
	said = keeper{k, k.interrupt, files}.askEach(t.Context(), all)
	if v := said["k1"]; all[0].Kept != "" || v.Reason != "its kernel could not write them" {
		t.Errorf("with a long path: %+v", said)
	}
	delete(files.folders, files.home)
	said = keeper{k, k.interrupt, files}.askEach(t.Context(), all)
	if v := said["k1"]; all[0].Kept != "" || v.Reason != "its kernel could not write them" {
		t.Errorf("without a home: %+v", said)
	}
}
