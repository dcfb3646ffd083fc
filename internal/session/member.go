package session

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

// warmChannel is the number of the warm kernel on the agent's wire; those of
// a session begin behind it.
const warmChannel = 1

// poolRest is how long a new session has the machine to itself before its
// successor in the pool is restored. On two cores, restoring at once makes the
// first cell three times as slow.
const poolRest = 100 * time.Millisecond

// destroyLimit bounds the destruction of a machine.
const destroyLimit = 20 * time.Second

// member is a sandbox that is ready: its agent answers, the kernel of its
// language runs as warmChannel, and it shares no randomness with another.
type Instance struct {
	machine  sandbox.Machine
	agent    *client.Client
	router   *frameRouter
	language string // of the warm kernel; "" for none
	info     kernel.Info
	layout   Layout
	env      map[string]string // of its template
}

// Done is closed when the machine has ended. (pool.Member)
func (m *Instance) Done() <-chan struct{} { return m.machine.Done() }

// makeMember restores a member from the template's snapshot, or boots one
// cold where that cannot be. Its layout may be another than the template's.
func (m *Manager) makeMember(ctx context.Context, t *template, layout Layout, build bool) (*Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.BootLimit+t.extra())
	defer cancel()
	var dir string
	var warm warmKernel
	var err error
	if snapshotLimits(layout.Limits) == snapshotLimits(t.layout.Limits) {
		dir, warm, err = t.get(ctx, build)
	}
	if err == nil && dir != "" {
		var mb *Instance
		if mb, err = m.restore(ctx, t, layout, dir, warm); err == nil {
			m.count.restores.Add(1)
			t.hit(ctx, mb)
			return mb, nil
		}
		if ctx.Err() == nil && !fault.Is(err, fault.Exhausted) {
			t.miss(dir)
		}
		if ctx.Err() == nil {
			m.count.restoresFailed.Add(1)
		}
	}
	if ctx.Err() != nil {
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "session.make", ctx.Err())
	}
	if err != nil && t.source != nil && fault.Is(err, fault.Conflict) {
		return nil, err // what it is made with has failed: it would again
	}
	if err != nil {
		m.log.Warn("booting cold, for lack of a snapshot", "template", t.key, "kind", fault.KindOf(err), "error", err)
	}
	mb, _, err := m.boot(ctx, t, layout)
	if err != nil {
		return nil, err
	}
	m.count.coldBoots.Add(1)
	return m.settle(ctx, mb)
}

// boot starts a machine cold, makes of it what its template says, and starts
// its kernel. Words are what the template's commands have printed.
func (m *Manager) boot(ctx context.Context, t *template, layout Layout) (mb *Instance, words string, err error) {
	machine, err := m.cfg.Backend.Boot(ctx, layout.spec(nil))
	if err != nil {
		return nil, "", err
	}
	mb = m.newMember(machine, t, layout)
	if err := mb.agent.WaitHello(ctx); err != nil {
		return nil, "", m.failed(mb, err)
	}
	if t.source != nil {
		if words, err = m.furnish(ctx, mb, t); err != nil {
			return nil, words, m.failed(mb, err)
		}
	}
	if mb.language == "" {
		return mb, words, nil
	}
	if mb.info, err = mb.agent.Kernels.Start(ctx, warmChannel, wire.StartKernel{Language: mb.language, Env: t.env}); err != nil {
		return nil, words, m.failed(mb, err)
	}
	m.count.kernelsStarted.Add(1)
	if t.source != nil && t.source.Spec.Code != "" {
		if err := m.preload(ctx, mb, t.source.Spec.Code); err != nil {
			return nil, words, m.failed(mb, err)
		}
	}
	return mb, words, nil
}

// preload runs the code of a user's template.
func (m *Manager) preload(ctx context.Context, mb *Instance, code string) error {
	r, err := mb.agent.Kernels.Request(ctx, warmChannel, kernel.Request{Op: "execute", Code: code, Silent: true, NoInput: true})
	if err != nil {
		return err
	}
	if r.Status != "ok" {
		return &fault.Error{Kind: fault.Conflict, Op: "template.build", Field: "code", Message: fmt.Sprintf("the template's code failed: %.200s: %.1000s", r.EName, r.EValue)}
	}
	return nil
}

func (m *Manager) restore(ctx context.Context, t *template, layout Layout, dir string, warm warmKernel) (*Instance, error) {
	machine, err := m.cfg.Backend.Restore(ctx, dir, layout.spec(nil), sandbox.RestoreOptions{})
	if err != nil {
		return nil, err
	}
	mb := m.newMember(machine, t, layout)
	mb.info = warm.Info
	if mb.language != "" {
		mb.agent.Attach(warmChannel, warm.Taken)
	}
	if mb, err = m.settle(ctx, mb); err != nil {
		return nil, err
	}
	if code := t.manifest.Prime; code != "" {
		prime := kernel.Request{Op: "execute", Silent: true, NoInput: true, Code: code}
		if _, err := mb.agent.Kernels.Request(ctx, warmChannel, prime); err != nil {
			return nil, m.failed(mb, err)
		}
	}
	return mb, nil
}

// settle makes a machine one of its own and sees that it answers.
func (m *Manager) settle(ctx context.Context, mb *Instance) (*Instance, error) {
	if err := mb.reseed(ctx, nil, 0); err != nil {
		return nil, m.failed(mb, err)
	}
	if err := mb.agent.Ping(ctx); err != nil {
		return nil, m.failed(mb, err)
	}
	if err := mb.machine.EndBurst(ctx); err != nil {
		return nil, m.failed(mb, err)
	}
	return mb, nil
}

func (m *Manager) newMember(machine sandbox.Machine, t *template, layout Layout) *Instance {
	r, w := machine.Wire()
	sink := newRouter(&m.count, warmChannel+1)
	return &Instance{machine: machine, language: t.manifest.Name, layout: layout, env: t.env, router: sink, agent: client.New(r, w, sink)}
}

// reseed gives the machine randomness and an environment of its own. Its name
// is the host's affair. proxy is the port of the way out, 0 for none.
func (m *Instance) reseed(ctx context.Context, env map[string]string, proxy int) error {
	var b [32]byte
	rand.Read(b[:]) // never fails
	if len(m.env) > 0 {
		all := maps.Clone(m.env)
		maps.Copy(all, env)
		env = all
	}
	return m.agent.Reseed(ctx, wire.Reseed{Seed: hex.EncodeToString(b[:]), Env: env, Proxy: proxy})
}

// failed destroys a member that could not be made and returns why, with the
// machine's own reason when it has ended.
func (m *Manager) failed(mb *Instance, err error) error {
	select {
	case <-mb.machine.Done():
		detail := mb.machine.Exit().String()
		m.log.Warn("a sandbox ended while it was made", "language", mb.language, "detail", detail)
	default:
	}
	m.discard(mb)
	return err
}

// discard destroys a member.
func (m *Manager) discard(mb *Instance) {
	ctx, cancel := context.WithTimeout(context.Background(), destroyLimit)
	defer cancel()
	if mb.machine != nil { // a session of an earlier process may have none
		if err := mb.machine.Destroy(ctx); err != nil {
			m.log.Error("a sandbox was not wholly removed", "error", err)
		}
	}
	mb.agent.End()
	select {
	case <-mb.agent.Done():
	case <-ctx.Done():
	}
}
