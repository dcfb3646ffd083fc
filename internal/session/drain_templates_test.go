package session

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// freeNames gives each name to each snapshot and each volume.
type freeNames struct{}

func (freeNames) HoldSnapshotName(context.Context, string, string, string, time.Duration) error {
	return nil
}

func (freeNames) HoldVolumeName(context.Context, string, string, string, time.Duration) error {
	return nil
}

// TestGVisorDrainStoresTemplates: a template was made before its node was in a cluster. A drain stores
// it in the blob store, and reports how many templates stay on the node when it cannot.
func TestGVisorDrainStoresTemplates(t *testing.T) {
	data := t.TempDir()
	t.Run("alone", func(t *testing.T) {
		r := newGVisor(t, data)
		tar := templateTar(t, entry("template.json", "{}"), entry("files/home/user/kept", "a file"))
		if _, err := r.m.warm.Store(r.ctx, alice.Tenant, alice.Subject, "mine",
			bytes.NewReader(tar)); err != nil {
			t.Fatal(err)
		}
	})
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	blobs := &fickle{Blobs: store}
	blobs.fails.Store(true)
	// Only the drain uploads: the node does it by itself with each tick.
	a := memberOf(t, "a", dir, blobs, time.Minute,
		func(c *Config) { c.DataDir, c.Tick, c.Reserved = data, time.Hour, freeNames{} })
	operator := noderpc.Principal{Tenant: noderpc.GatewayTenant}
	for _, step := range []struct {
		fails bool
		want  nodes.Moved
	}{{true, nodes.Moved{Templates: 1}}, {false, nodes.Moved{}}} {
		blobs.fails.Store(step.fails)
		d, err := call[nodes.Moved](a, operator, protocol.OpDrain, struct{}{})
		if err != nil || d != step.want {
			t.Errorf("while the store fails (%t), the drain reports %+v, %v", step.fails, d, err)
		}
	}
	all := must[protocol.TemplateList](a, protocol.OpTemplateStored, struct{}{})
	if len(all.Templates) != 1 || all.Templates[0].Name != "mine" {
		t.Errorf("the blob store has the templates %+v", all.Templates)
	}
}
