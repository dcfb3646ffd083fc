package warm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/kernel"
)

// KernelChannel is the number of the warm kernel on the agent's wire. The
// channels of a session have higher numbers.
const KernelChannel = 1

// claimDelay is the time between a claim and the start of making its successor
// in the pool. On two cores, restoring at once makes the session's first cell
// three times as slow.
const claimDelay = 100 * time.Millisecond

// destroyLimit bounds the destruction of a sandbox.
const destroyLimit = 20 * time.Second

// Instance is a sandbox that is ready: its agent answers, the kernel of its
// language runs on KernelChannel, and it shares no randomness with another.
// Whoever claimed it owns it, and calls Manager.Discard in the end.
type Instance struct {
	Machine sandbox.Machine
	Agent   *client.Client
	Sink    Sink
	// Language is that of the warm kernel, "" for none. Info describes the
	// kernel.
	Language string
	Info     kernel.Info
	Layout   Layout
	// Env is the template's environment.
	Env map[string]string
}

// Done is closed when the sandbox has ended. It implements pool.Member.
func (i *Instance) Done() <-chan struct{} { return i.Machine.Done() }

// make restores an instance from the template's snapshot, or boots one cold if
// that is not possible. layout may differ from the template's.
func (m *Manager) make(ctx context.Context, t *Template, layout Layout, build bool) (*Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.BootLimit+t.buildLimit())
	defer cancel()
	var dir string
	var warm warmKernel
	var err error
	if SameSnapshot(layout.Limits, t.layout.Limits) {
		dir, warm, err = t.snapshot(ctx, build)
	}
	if err == nil && dir != "" {
		var i *Instance
		if i, err = m.restore(ctx, t, layout, dir, warm); err == nil {
			m.cfg.Observer.Restored(true)
			t.restored(ctx, i)
			return i, nil
		}
		if ctx.Err() == nil && !fault.Is(err, fault.Exhausted) {
			t.restoreFailed(dir)
		}
		if ctx.Err() == nil {
			m.cfg.Observer.Restored(false)
		}
	}
	if ctx.Err() != nil {
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "session.make", ctx.Err())
	}
	if err != nil && t.def != nil && fault.Is(err, fault.Conflict) {
		return nil, err // the template's own commands failed: they would again
	}
	if err != nil {
		m.log.Warn("booting cold, for lack of a snapshot", "template", t.key, "kind", fault.KindOf(err), "error", err)
	}
	i, _, err := m.boot(ctx, t, layout)
	if err != nil {
		return nil, err
	}
	m.cfg.Observer.Booted()
	return m.finish(ctx, i)
}

// boot boots a sandbox cold, builds the user's template in it, and starts its
// kernel. output is what the template's commands printed.
func (m *Manager) boot(ctx context.Context, t *Template, layout Layout) (i *Instance, output string, err error) {
	machine, err := m.cfg.Backend.Boot(ctx, layout.Spec(nil))
	if err != nil {
		return nil, "", err
	}
	i = m.newInstance(machine, t, layout)
	if err := i.Agent.WaitHello(ctx); err != nil {
		return nil, "", m.failed(i, err)
	}
	if t.def != nil {
		if output, err = m.buildTemplate(ctx, i, t); err != nil {
			return nil, output, m.failed(i, err)
		}
	}
	if i.Language == "" {
		return i, output, nil
	}
	if i.Info, err = i.Agent.Kernels.Start(ctx, KernelChannel, wire.StartKernel{Language: i.Language, Env: t.env}); err != nil {
		return nil, output, m.failed(i, err)
	}
	m.cfg.Observer.KernelStarted()
	if t.def != nil && t.def.Spec.Code != "" {
		if err := i.preload(ctx, t.def.Spec.Code); err != nil {
			return nil, output, m.failed(i, err)
		}
	}
	return i, output, nil
}

// preload runs the code of a user's template.
func (i *Instance) preload(ctx context.Context, code string) error {
	r, err := i.Agent.Kernels.Request(ctx, KernelChannel, kernel.Request{Op: "execute", Code: code, Silent: true, NoInput: true})
	if err != nil {
		return err
	}
	if r.Status != "ok" {
		return &fault.Error{
			Kind: fault.Conflict, Op: "template.build", Field: "code",
			Message: fmt.Sprintf("the template's code failed: %.200s: %.1000s", r.EName, r.EValue),
		}
	}
	return nil
}

func (m *Manager) restore(ctx context.Context, t *Template, layout Layout, dir string, warm warmKernel) (*Instance, error) {
	machine, err := m.cfg.Backend.Restore(ctx, dir, layout.Spec(nil), sandbox.RestoreOptions{})
	if err != nil {
		return nil, err
	}
	i := m.newInstance(machine, t, layout)
	i.Info = warm.Info
	if i.Language != "" {
		i.Agent.Attach(KernelChannel, warm.Taken)
	}
	if i, err = m.finish(ctx, i); err != nil {
		return nil, err
	}
	if code := t.manifest.Prime; code != "" {
		prime := kernel.Request{Op: "execute", Silent: true, NoInput: true, Code: code}
		if _, err := i.Agent.Kernels.Request(ctx, KernelChannel, prime); err != nil {
			return nil, m.failed(i, err)
		}
	}
	return i, nil
}

// finish gives a sandbox randomness of its own and checks that it answers.
func (m *Manager) finish(ctx context.Context, i *Instance) (*Instance, error) {
	if err := i.Reseed(ctx, nil, 0); err != nil {
		return nil, m.failed(i, err)
	}
	if err := i.Agent.Ping(ctx); err != nil {
		return nil, m.failed(i, err)
	}
	if err := i.Machine.EndBurst(ctx); err != nil {
		return nil, m.failed(i, err)
	}
	return i, nil
}

func (m *Manager) newInstance(machine sandbox.Machine, t *Template, layout Layout) *Instance {
	r, w := machine.Wire()
	sink := m.cfg.Host.NewSink()
	return &Instance{
		Machine: machine, Agent: client.New(r, w, sink), Sink: sink,
		Language: t.manifest.Name, Layout: layout, Env: t.env,
	}
}

// Reseed gives the sandbox new randomness and an environment. The backend gave
// it a host name. proxy is the port of the network proxy, 0 for none.
func (i *Instance) Reseed(ctx context.Context, env map[string]string, proxy int) error {
	var b [32]byte
	rand.Read(b[:]) // never fails
	if len(i.Env) > 0 {
		all := maps.Clone(i.Env)
		maps.Copy(all, env)
		env = all
	}
	return i.Agent.Reseed(ctx, wire.Reseed{Seed: hex.EncodeToString(b[:]), Env: env, Proxy: proxy})
}

// failed discards an instance that could not be made, and returns err. If the
// sandbox has ended it logs how.
func (m *Manager) failed(i *Instance, err error) error {
	select {
	case <-i.Machine.Done():
		m.log.Warn("a sandbox ended while it was made", "language", i.Language, "detail", i.Machine.Exit().String())
	default:
	}
	m.Discard(i)
	return err
}

// Discard destroys an instance. Its Machine may be nil: a hibernated session
// has none.
func (m *Manager) Discard(i *Instance) {
	ctx, cancel := context.WithTimeout(context.Background(), destroyLimit)
	defer cancel()
	if i.Machine != nil {
		if err := i.Machine.Destroy(ctx); err != nil {
			m.log.Error("a sandbox was not wholly removed", "error", err)
		}
	}
	i.Agent.End()
	select {
	case <-i.Agent.Done():
	case <-ctx.Done():
	}
}
