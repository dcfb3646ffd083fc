package nodeapi

import (
	"context"

	"github.com/sandgate/sandgate/internal/notebook"
	"github.com/sandgate/sandgate/protocol"
	wire "github.com/sandgate/sandgate/protocol/notebook"
)

func snapshotList(_ context.Context, c *call, _ none) (protocol.SnapshotList, error) {
	return c.server.cfg.Snapshots.List(c.principal), nil
}

func snapshotGet(ctx context.Context, c *call, p protocol.SnapshotRef) (protocol.Snapshot, error) {
	return c.server.cfg.Snapshots.Get(ctx, c.principal, p.Snapshot)
}

func snapshotDelete(ctx context.Context, c *call, p protocol.SnapshotRef) (none, error) {
	return none{}, c.server.cfg.Snapshots.Delete(ctx, c.principal, p.Snapshot)
}

func snapshotStored(ctx context.Context, c *call, p protocol.SnapshotRef) (
	protocol.SnapshotList, error,
) {
	return c.server.cfg.Snapshots.Stored(ctx, c.principal, p.Snapshot)
}

func snapshotDiscard(ctx context.Context, c *call, p protocol.SnapshotRef) (none, error) {
	return none{}, c.server.cfg.Snapshots.Discard(ctx, c.principal, p.Snapshot)
}

// templateBuild receives a template's tar. It replies when the tar is stored. The template's
// snapshot is created afterwards.
func templateBuild(_ context.Context, c *call, p protocol.TemplateRef,
	reply func(protocol.Template, error),
) error {
	u, err := c.addUpload("this link has another upload already", "this needs a separate link")
	if err != nil {
		return err
	}
	c.background(c.op(), func() {
		t, err := c.server.cfg.Templates.Store(c.ctx, c.principal, p.Name, u.out)
		c.endUpload(u)
		reply(t, err)
	}, func(err error) {
		c.endUpload(u)
		c.fail(err)
	})
	return nil
}

func templateList(_ context.Context, c *call, _ none) (protocol.TemplateList, error) {
	return c.server.cfg.Templates.List(c.principal), nil
}

func templateGet(_ context.Context, c *call, p protocol.TemplateRef) (protocol.Template, error) {
	return c.server.cfg.Templates.Get(c.principal, p.Name)
}

func templateDelete(ctx context.Context, c *call, p protocol.TemplateRef) (none, error) {
	return none{}, c.server.cfg.Templates.Delete(ctx, c.principal, p.Name)
}

func templateStored(ctx context.Context, c *call, p protocol.TemplateRef) (
	protocol.TemplateList, error,
) {
	return c.server.cfg.Templates.Stored(ctx, c.principal, p.Name)
}

func volumeCreate(_ context.Context, c *call, p protocol.VolumeCreate) (protocol.Volume, error) {
	return c.server.cfg.Volumes.Create(c.principal, p)
}

func volumeList(_ context.Context, c *call, _ none) (protocol.VolumeList, error) {
	return c.server.cfg.Volumes.List(c.principal), nil
}

func volumeGet(_ context.Context, c *call, p protocol.VolumeRef) (protocol.Volume, error) {
	return c.server.cfg.Volumes.Get(c.principal, p.Name)
}

func volumeDelete(_ context.Context, c *call, p protocol.VolumeRef) (none, error) {
	return none{}, c.server.cfg.Volumes.Delete(c.principal, p.Name)
}

func volumeLease(_ context.Context, c *call, p protocol.VolumeLease) (protocol.Lease, error) {
	return c.server.cfg.Leases.Lease(c.principal, p)
}

func volumeRelease(_ context.Context, c *call, p protocol.VolumeRelease) (none, error) {
	return none{}, c.server.cfg.Leases.Release(c.principal, p)
}

// notebookHandlers serve the notebooks that the node stores outside of sandboxes.
func notebookHandlers() []handler {
	return []handler{
		stored(protocol.OpNotebookList, (*notebook.Store).List),
		stored(protocol.OpNotebookVersions, (*notebook.Store).Versions),
		stored(protocol.OpNotebookRead, (*notebook.Store).Read),
		stored(protocol.OpNotebookName, (*notebook.Store).Name),
		stored(protocol.OpNotebookDelete,
			func(s *notebook.Store, tenant string, r wire.Ref) (none, error) {
				return none{}, s.Delete(tenant, r)
			}),
	}
}

func stored[P, R any](op string, do func(*notebook.Store, string, P) (R, error)) handler {
	return handle(op, func(_ context.Context, c *call, p P) (R, error) {
		return do(c.server.cfg.Notebooks, c.principal.Tenant, p)
	})
}
