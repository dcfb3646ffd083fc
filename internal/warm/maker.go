package warm

import (
	"context"
	"log/slog"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
)

// destroyLimit bounds the destruction of a sandbox.
const destroyLimit = 20 * time.Second

// A maker makes instances of templates: it restores their snapshots, or boots sandboxes and builds
// templates in them. It has no state.
type maker struct {
	cfg Config
	log *slog.Logger
}

// make restores an instance from the template's snapshot, or boots one cold if
// that is not possible. layout may differ from the template's. tenant is "" for a
// pool.
func (k *maker) make(ctx context.Context, t *Template, layout Layout, tenant string,
	build bool,
) (*Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.BootLimit+t.buildLimit())
	defer cancel()
	var dir string
	var warm warmKernel
	var err error
	if SameSnapshot(layout.Limits, t.layout.Limits) {
		dir, warm, err = t.snapshot(ctx, build)
	}
	if err == nil && dir != "" {
		var i *Instance
		if i, err = k.restore(ctx, t, layout, tenant, dir, warm); err == nil {
			k.cfg.Observer.Restored(true)
			t.restored(ctx, i)
			return i, nil
		}
		if ctx.Err() == nil && !fault.Is(err, fault.Exhausted) {
			t.restoreFailed(dir)
		}
		if ctx.Err() == nil {
			k.cfg.Observer.Restored(false)
		}
	}
	if ctx.Err() != nil {
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "session.make", ctx.Err())
	}
	if err != nil && t.def != nil && fault.Is(err, fault.Conflict) {
		return nil, err // the template's own commands failed, and would fail again
	}
	if err != nil {
		k.log.Warn("booting cold, for lack of a snapshot", "template", t.key, "kind",
			fault.KindOf(err), "error", err)
	}
	i, _, err := k.boot(ctx, t, layout, tenant)
	if err != nil {
		return nil, err
	}
	k.cfg.Observer.Booted()
	return k.finish(ctx, i)
}

// boot boots a sandbox cold, builds the user's template in it, and starts its kernel. output is the
// output of the template's commands.
func (k *maker) boot(ctx context.Context, t *Template, layout Layout,
	tenant string,
) (i *Instance, output string, err error) {
	machine, err := k.cfg.Backend.Boot(ctx, layout.Spec(tenant, nil))
	if err != nil {
		return nil, "", err
	}
	i = k.newInstance(machine, t, layout)
	if err := i.Agent.WaitHello(ctx); err != nil {
		return nil, "", k.failed(i, err)
	}
	if t.def != nil {
		if output, err = k.buildTemplate(ctx, i, t); err != nil {
			return nil, output, k.failed(i, err)
		}
	}
	if i.Language == "" {
		return i, output, nil
	}
	if i.Info, err = i.Agent.Kernels.Start(ctx, KernelChannel,
		wire.StartKernel{Language: i.Language, Env: t.env}); err != nil {
		return nil, output, k.failed(i, err)
	}
	k.cfg.Observer.KernelStarted()
	if t.def != nil && t.def.Spec.Code != "" {
		if err := i.preload(ctx, t.def.Spec.Code); err != nil {
			return nil, output, k.failed(i, err)
		}
	}
	return i, output, nil
}

func (k *maker) restore(ctx context.Context, t *Template, layout Layout, tenant, dir string,
	warm warmKernel,
) (*Instance, error) {
	machine, err := k.cfg.Backend.Restore(ctx, dir, layout.Spec(tenant, nil),
		sandbox.RestoreOptions{Checked: t.isChecked(), Shared: true, Server: t.def == nil})
	if err != nil {
		return nil, err
	}
	i := k.newInstance(machine, t, layout)
	i.Info = warm.Info
	i.Agent.SetRevision(warm.Revision)
	if i.Language != "" {
		i.Agent.Attach(KernelChannel, warm.Taken)
	}
	if i, err = k.finish(ctx, i); err != nil {
		return nil, err
	}
	if code := t.manifest.Prime; code != "" {
		prime := kernel.Request{Op: "execute", Silent: true, NoInput: true, Code: code}
		if _, err := i.Agent.Kernels.Request(ctx, KernelChannel, prime); err != nil {
			return nil, k.failed(i, err)
		}
	}
	return i, nil
}

// finish gives a sandbox random numbers of its own and checks that it answers.
func (k *maker) finish(ctx context.Context, i *Instance) (*Instance, error) {
	if err := i.Reseed(ctx, nil, 0); err != nil {
		return nil, k.failed(i, err)
	}
	if err := i.Agent.Ping(ctx); err != nil {
		return nil, k.failed(i, err)
	}
	if err := i.Machine.EndBurst(ctx); err != nil {
		return nil, k.failed(i, err)
	}
	return i, nil
}

func (k *maker) newInstance(machine sandbox.Machine, t *Template, layout Layout) *Instance {
	r, w := machine.Wire()
	sink := k.cfg.Host.NewSink()
	return &Instance{
		Machine: machine, Agent: client.New(r, w, sink), Sink: sink,
		Language: t.manifest.Name, Layout: layout, Env: t.env,
	}
}

// failed discards an instance that could not be made, and returns err. If the sandbox has ended, it
// logs the reason.
func (k *maker) failed(i *Instance, err error) error {
	select {
	case <-i.Machine.Done():
		k.log.Warn("a sandbox ended while it was made", "language", i.Language, "detail",
			i.Machine.Exit().String())
	default:
	}
	k.discard(i)
	return err
}

// discard destroys an instance. Its Machine may be nil: a hibernated session
// has none.
func (k *maker) discard(i *Instance) {
	ctx, cancel := context.WithTimeout(context.Background(), destroyLimit)
	defer cancel()
	if i.Machine != nil {
		if err := i.Machine.Destroy(ctx); err != nil {
			k.log.Error("a sandbox was not wholly removed", "error", err)
		}
	}
	i.Agent.End()
	select {
	case <-i.Agent.Done():
	case <-ctx.Done():
	}
}
