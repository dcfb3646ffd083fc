package noderouter

import (
	"context"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// heldNames are the names of volumes by tenant and name.
type heldNames map[string]bool

func (h heldNames) VolumeNameHeld(_ context.Context, tenant, name string) (bool, error) {
	return h[tenant+"/"+name], nil
}

// TestVolumeOfGoneNode: a volume whose node is away is unavailable, and so is a session with it. A
// volume that does not exist is unknown.
func TestVolumeOfGoneNode(t *testing.T) {
	f, _ := startNodes(t, "a")
	f.volumeNames = heldNames{"alice/kept": true, "bob/other": true}
	ctx := within(t)
	for name, want := range map[string]fault.Kind{
		"kept": fault.Unavailable, "other": fault.NotFound,
	} {
		for _, op := range []string{
			protocol.OpVolumeGet, protocol.OpVolumeDelete, protocol.OpVolumeLease,
		} {
			err := f.Call(ctx, alice, op, protocol.VolumeRef{Name: name}, nil)
			if !fault.Is(err, want) {
				t.Errorf("%s of %s: %v, want %s", op, name, err, want)
			}
		}
	}
	if _, err := createSession(t, f, "", "kept"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a session with a volume whose node is away: %v", err)
	}
}
