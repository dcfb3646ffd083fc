package carry

import (
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// closeLimit bounds the end of the programs in the earlier sandbox.
	closeLimit = 20 * time.Second
	// quietLimit bounds the time that the agent of the new sandbox takes to come to rest.
	quietLimit = 10 * time.Second
	// destroyLimit bounds the destruction of the earlier sandbox.
	destroyLimit = 20 * time.Second
)

// renewFolder makes the frozen session in a folder one of the current edition. Its steps, in this
// order: take a place and a new sandbox; move the files; save the new sandbox and the record to
// another folder; exchange the two folders. Before the last step an error, or the end of the process,
// leaves the session as it was.
func (c *Carrier) renewFolder(ctx context.Context, id string) error {
	dir := c.cfg.Folder(id)
	v, _, err := snapshot.ReadRecord(dir, id)
	if err != nil {
		return err
	}
	work := c.cfg.Temporary()
	defer func() { _ = os.RemoveAll(work) }() // the next start removes what remains
	if err := c.rebuild(ctx, dir, work, &v); err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	if err := snapshot.WriteRecord(work, &v, data); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	return fault.Wrap(fault.Host, op, snapshot.Exchange(work, dir))
}

// renewCopy writes the snapshot of a user in the folder dir to the folder work, as one of the current
// edition.
func (c *Carrier) renewCopy(ctx context.Context, dir, work string) error {
	v, err := snapshot.ReadManifest(dir)
	if err != nil {
		return err
	}
	if err := c.rebuild(ctx, dir, work, &v.Record); err != nil {
		return err
	}
	if v.Edition, err = c.cfg.Backend.Edition(filepath.Join(work, "snapshot")); err != nil {
		return err
	}
	return fault.Wrap(fault.Host, op, snapshot.WriteCarried(work, dir, v))
}

// rebuild moves the files of the saved session in the folder dir to a new sandbox, saves the sandbox
// to the folder work, and makes v the record of the session with it.
func (c *Carrier) rebuild(ctx context.Context, dir, work string, v *snapshot.Record) error {
	hold, err := c.cfg.Volumes.Hold(v.Tenant, v.Volumes, len(v.Volumes))
	if err != nil {
		return err
	}
	defer hold.Release()
	release, err := c.cfg.Sandboxes.Place(ctx, v)
	if err != nil {
		return err
	}
	defer release()
	fresh, err := c.cfg.Sandboxes.Claim(ctx, v)
	if err != nil {
		return err
	}
	defer c.cfg.Sandboxes.Discard(fresh)
	live := c.cfg.Backend.Capabilities().LiveMounts
	if err := hold.Mount(ctx, fresh.Machine, fresh.Agent.Files, live); err != nil {
		return err
	}
	moved, err := c.moveFiles(ctx, dir, v, hold, fresh)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	agent, err := save(ctx, fresh, filepath.Join(work, "snapshot"))
	if err != nil {
		return err
	}
	delete(c.plain, dir)
	return replaceSandbox(v, fresh, agent, moved)
}

// moveFiles restores the session's own sandbox, makes its kernels write their variables to files, ends
// all programs in it, and moves the files to the new one. After a failure it keeps no variables, because
// they may be its reason.
func (c *Carrier) moveFiles(ctx context.Context, dir string, v *snapshot.Record, h *volume.Hold,
	fresh *warm.Instance,
) (Moved, error) {
	machine, err := c.cfg.Backend.Restore(ctx, filepath.Join(dir, "snapshot"),
		v.Layout.Spec(v.Tenant, h.Sources()), sandbox.RestoreOptions{})
	if err != nil {
		return Moved{}, err
	}
	agent := client.Restore(v.Agent, nil) // its output is dropped
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
		defer cancel()
		if err := machine.Destroy(ctx); err != nil {
			c.cfg.Log.Error("a sandbox was not wholly removed", "session", v.ID, "error", err)
		}
		agent.End()
	}()
	agent.Reconnect(machine.Wire())
	if err := agent.Ping(ctx); err != nil {
		return Moved{}, err
	}
	said := map[string]Variables{}
	if !c.plain[dir] {
		c.plain[dir] = true
		said = keeper{agent.Kernels, agent.Interrupt, agent.Files}.askEach(ctx, v.Channels)
	} else {
		forget(v.Channels)
	}
	endPrograms(ctx, agent, v.Agent.Flows)
	for id, v := range said {
		if v.Reason != "" { // it may have begun to write
			_ = agent.Files.Remove(ctx, wire.FileRemove{Path: path.Join(keptFolder, id+".part")})
		}
	}
	v.NextWire = max(v.NextWire, warm.KernelChannel+1)
	m := mover{from: agent.Files, to: fresh.Agent.Files, number: func() uint32 {
		v.NextWire++
		return v.NextWire - 1
	}}
	moved, err := m.move(ctx, folders())
	moved.said = said
	return moved, err
}

// endPrograms ends the programs of a sandbox, so that its files are complete and do not change.
// Programs that do not end in time are ended with the sandbox.
func endPrograms(ctx context.Context, agent *client.Client, all map[uint32]client.SavedFlow) {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	var wg sync.WaitGroup
	for n := range all {
		wg.Go(func() { _ = agent.Close(ctx, n) })
	}
	wg.Wait()
}

// save writes a new sandbox to a folder, which ends it, and returns the state of its agent. Its warm
// kernel does not belong to the session, and is ended first.
func save(ctx context.Context, i *warm.Instance, dir string) (s client.Saved, err error) {
	if i.Language != "" {
		if err := i.Agent.Close(ctx, warm.KernelChannel); err != nil {
			return s, err
		}
	}
	quiet, cancel := context.WithTimeout(ctx, quietLimit)
	defer cancel()
	if err := i.Agent.Quiesce(quiet); err != nil {
		return s, err
	}
	if err := i.Machine.Checkpoint(ctx, dir); err != nil {
		return s, err
	}
	if err := i.Agent.Drain(ctx); err != nil {
		return s, err
	}
	return i.Agent.Save(ctx)
}
