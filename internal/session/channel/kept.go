package channel

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// restoreLimit bounds the time in which a kernel restores variables. The driver gets driverLimit,
	// so that its answer arrives.
	restoreLimit = 60 * time.Second
	driverLimit  = 45 * time.Second
	// endLimit bounds the end of a kernel that has not answered, and the removal of the file.
	endLimit = 20 * time.Second
)

// restoreVariables gives a new kernel the variables of the one before an upgrade, if they are in a
// file, and says in the log which ones. It does so once: the driver removes the file, which code of
// the user may have written. It returns false if the kernel has not answered: then it is ended, and
// its variables are lost.
func (d *driver) restoreVariables(ctx context.Context) bool {
	c := d.channel
	c.mu.Lock()
	file := c.kept
	c.mu.Unlock()
	if file == "" {
		return true
	}
	cfg := &c.set.cfg
	work, cancel := context.WithTimeout(ctx, restoreLimit)
	defer cancel()
	release, err := cfg.Session.Acquire(work)
	if err != nil {
		return true // with the next start
	}
	defer release()
	kept, err := cfg.Agent.Kernels.Keep(work, d.wire, "restore",
		kernel.Keep{File: file, Seconds: int(driverLimit / time.Second)})
	c.mu.Lock()
	c.kept = ""
	c.mu.Unlock()
	message := "the variables from before the upgrade could not be restored"
	if err == nil {
		message = restoredMessage(kept)
	}
	c.Note(map[string]any{"event": "variables_restored", "variables": kept, "message": message})
	if err == nil {
		return true
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	_ = cfg.Agent.Files.Remove(end, wire.FileRemove{Path: file}) // it may be gone
	if fault.Is(err, fault.Unsupported) || fault.Is(err, fault.InvalidArgument) {
		return true
	}
	cfg.Router.remove(d.wire)
	_ = cfg.Agent.Close(end, d.wire) // it may have ended
	return false
}

// restoredMessage says which variables are there, for people.
func restoredMessage(k kernel.Kept) string {
	lost := kernel.Names(k.Lost, k.LostCount)
	switch {
	case k.KeptCount == 0 && k.LostCount == 0:
		return "the settings from before the upgrade are restored"
	case k.KeptCount == 0:
		return "the variables from before the upgrade (" + lost + ") could not be restored"
	}
	text := "the variables from before the upgrade are restored: " +
		kernel.Names(k.Kept, k.KeptCount)
	if k.LostCount > 0 {
		text += "; without " + lost
	}
	return text
}
