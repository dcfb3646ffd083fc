package carry

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// keepLimit bounds the time in which kernels write their variables. They write at the same time,
	// and get driverLimit, so that an answer with a part of them arrives.
	keepLimit   = 40 * time.Second
	driverLimit = 30 * time.Second
	// interruptLimit bounds the interrupt of a cell, which would fail anyway.
	interruptLimit = 5 * time.Second
	// maxKept is the size of all files with variables of a session, in bytes.
	maxKept = 256 << 20
	// maxPath bounds the path of the home, which the agent reports.
	maxPath = 1024
	// keptFolder is the folder of these files, below the home.
	keptFolder = ".sandgate/kept"
)

// Variables describes the variables of a kernel, for its log.
type Variables struct {
	kernel.Kept
	// Reason is why none were kept.
	Reason string `json:"reason,omitempty"`
}

// Kernels are the kernels of a sandbox. client.Client implements it together with its Kernels.
type Kernels interface {
	Keep(ctx context.Context, ch uint32, op string, p kernel.Keep) (kernel.Kept, error)
}

// keeper keeps the variables of the kernels of a session in files of its home.
type keeper struct {
	kernels   Kernels
	interrupt func(ctx context.Context, ch uint32) error
	files     Reader
}

// askEach asks each kernel that runs to write its variables. It returns what each has said, by the ids
// of the channels, and records the files in the channels. It never fails: a kernel that does not
// write has kept nothing.
func (k keeper) askEach(ctx context.Context, all []snapshot.Channel) map[string]Variables {
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	forget(all)
	home, err := k.files.Stat(ctx, wire.FileDescribe{Path: "."})
	if err == nil && (!path.IsAbs(home.Path) || len(home.Path) > maxPath) {
		err = fault.New(fault.Malformed, op, "the agent has no home: %.100q", home.Path)
	}
	count := 0
	for _, c := range all {
		if alive(c) {
			count++
		}
	}
	said := make([]Variables, len(all))
	var wg sync.WaitGroup
	for n := range all {
		if !alive(all[n]) {
			continue
		}
		if err != nil {
			said[n] = failed(err)
			continue
		}
		wg.Go(func() {
			said[n] = k.one(ctx, &all[n], kernel.Keep{
				File: path.Join(home.Path, keptFolder, all[n].ID), Bytes: maxKept / int64(count),
				Seconds: int(driverLimit / time.Second),
			})
		})
	}
	wg.Wait()
	found := map[string]Variables{}
	for n, c := range all {
		if alive(c) {
			found[c.ID] = said[n]
		}
	}
	return found
}

// forget records that no kernel keeps its variables.
func forget(all []snapshot.Channel) {
	for n := range all {
		if alive(all[n]) {
			all[n].Kept = ""
		}
	}
}

// alive reports whether a channel has a kernel that runs.
func alive(c snapshot.Channel) bool { return c.Queue != nil && c.Wire != 0 && c.Exit == nil }

// one asks a kernel to write its variables to a file. A cell that runs is interrupted first.
func (k keeper) one(ctx context.Context, c *snapshot.Channel, p kernel.Keep) Variables {
	if c.Queue.Running != nil {
		stop, cancel := context.WithTimeout(ctx, interruptLimit)
		_ = k.interrupt(stop, c.Wire) // a kernel that does not stop does not answer
		cancel()
	}
	kept, err := k.kernels.Keep(ctx, c.Wire, "keep", p)
	if err != nil {
		return failed(err)
	}
	if kept.Written {
		c.Kept = p.File
	}
	return Variables{Kept: kept}
}

// failed describes the variables of a kernel that has not written them.
func failed(err error) Variables {
	v := Variables{Kept: kernel.Kept{}.Bounded(), Reason: "its kernel could not write them"}
	switch {
	case fault.Is(err, fault.Unsupported), fault.Is(err, fault.InvalidArgument):
		v.Reason = "this kernel cannot keep them"
	case fault.Is(err, fault.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		v.Reason = "its kernel did not write them in time"
	}
	return v
}

// message says what was kept, for people. A channel that is no kernel, or has none, has no variables.
func message(v *Variables) string {
	const kept, lost = "the server was upgraded: files are kept, ", "running programs are lost"
	switch {
	case v == nil:
		return kept + lost
	case v.Reason != "":
		return kept + "variables and " + lost + "; " + v.Reason
	}
	text := kept
	if v.KeptCount > 0 {
		text = fmt.Sprintf("the server was upgraded: files and variables (%s) are kept, ",
			kernel.Names(v.Kept.Kept, v.KeptCount))
	}
	if v.LostCount > 0 {
		return text + fmt.Sprintf("variables that cannot be kept (%s) and ",
			kernel.Names(v.Lost, v.LostCount)) + lost
	}
	return text + lost
}
