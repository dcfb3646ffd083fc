package volume

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// directory has the names of a cluster's volumes, with their ids.
type directory struct {
	held map[string]string
	away bool
}

func (d *directory) HoldVolumeName(
	_ context.Context, tenant, name, id string, life time.Duration,
) error {
	k := key(tenant, name)
	switch {
	case d.away:
		return fault.New(fault.Unavailable, "test", "the directory is away")
	case life == 0:
		if d.held[k] == id {
			delete(d.held, k)
		}
		return nil
	case d.held[k] != "" && d.held[k] != id:
		return fault.New(fault.Conflict, "test", "another volume has the name")
	}
	d.held[k] = id
	return nil
}

// TestNames: two nodes of a cluster never have volumes of one name, also while one of them does not
// answer. A name is free when its volume is removed or was not created, and the names come back when
// the directory has lost them.
func TestNames(t *testing.T) {
	d := &directory{held: map[string]string{}}
	open := func() *Store {
		t.Helper()
		v, err := New(Config{
			Dir: t.TempDir(), Max: 2, MaxBytes: 1 << 20, Names: d,
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	a, b := open(), open()
	alice := noderpc.Principal{Tenant: "alice"}
	create := func(v *Store, name string) error {
		_, err := v.Create(alice, protocol.VolumeCreate{Name: name})
		return err
	}
	expect := func(what string, err error, kind fault.Kind) {
		t.Helper()
		if kind == "" && err != nil || kind != "" && !fault.Is(err, kind) {
			t.Errorf("%s: %v, want %q", what, err, kind)
		}
	}
	expect("the first one", create(a, "x"), "")
	expect("the same name on another node", create(b, "x"), fault.Conflict)
	expect("the same name on the same node", create(a, "x"), fault.Conflict)
	if len(b.List(alice).Volumes) != 0 {
		t.Error("the other node has a volume")
	}
	expect("the second one", create(a, "y"), "")
	expect("one too many", create(a, "z"), fault.Exhausted)
	expect("its name", create(b, "z"), "")

	d.held = map[string]string{}
	a.holdAll(t.Context())
	expect("a name that the directory had lost", create(b, "x"), fault.Conflict)

	d.away = true
	expect("without the directory", create(b, "new"), fault.Unavailable)
	expect("a removal without the directory", a.Delete(alice, "x"), "")
	d.away = false
	expect("a name that is not free yet", create(b, "x"), fault.Conflict)
	a.holdAll(t.Context())
	expect("a free name", create(b, "x"), "")
	expect("a removal", b.Delete(alice, "x"), "")
	if len(d.held) != 1 || a.unfreed != nil || b.unfreed != nil {
		t.Errorf("the directory has %v", d.held)
	}
}
