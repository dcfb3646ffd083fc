package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/sandgate/sandgate/agent"
	"github.com/sandgate/sandgate/fault"
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
type member struct {
	machine  Machine
	agent    *agent.Client
	router   *router
	language string
	info     kernel.Info
}

// Done is closed when the machine has ended. (sandbox.Member)
func (m *member) Done() <-chan struct{} { return m.machine.Done() }

// makeMember restores a member from the language's snapshot, or boots one
// cold where that cannot be.
func (m *Manager) makeMember(ctx context.Context, language string, build bool) (*member, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.BootLimit)
	defer cancel()
	t := m.templates[language]
	dir, warm, err := t.get(ctx, build)
	if err == nil && dir != "" {
		var mb *member
		if mb, err = m.restore(ctx, language, dir, warm); err == nil {
			m.count.restores.Add(1)
			t.hit()
			return mb, nil
		}
		if ctx.Err() == nil && !fault.Is(err, fault.Exhausted) {
			t.miss(dir)
		}
	}
	if ctx.Err() != nil {
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), "session.make", ctx.Err())
	}
	if err != nil {
		m.log.Warn("booting cold, for lack of a snapshot", "language", language, "error", err)
	}
	mb, err := m.boot(ctx, language)
	if err != nil {
		return nil, err
	}
	m.count.coldBoots.Add(1)
	return m.settle(ctx, mb)
}

// boot starts a machine cold, with its kernel.
func (m *Manager) boot(ctx context.Context, language string) (*member, error) {
	machine, err := m.cfg.Host.Boot(ctx)
	if err != nil {
		return nil, err
	}
	mb := m.newMember(machine, language)
	if err := mb.agent.WaitHello(ctx); err != nil {
		return nil, m.failed(mb, err)
	}
	if mb.info, err = mb.agent.StartKernel(ctx, warmChannel, agent.StartKernel{Language: language}); err != nil {
		return nil, m.failed(mb, err)
	}
	m.count.kernelsStarted.Add(1)
	return mb, nil
}

func (m *Manager) restore(ctx context.Context, language, dir string, warm warmKernel) (*member, error) {
	machine, err := m.cfg.Host.Restore(ctx, dir)
	if err != nil {
		return nil, err
	}
	mb := m.newMember(machine, language)
	mb.info = warm.Info
	mb.agent.Adopt(warmChannel, warm.Taken)
	if mb, err = m.settle(ctx, mb); err != nil {
		return nil, err
	}
	if code := m.templates[language].manifest.Prime; code != "" {
		prime := kernel.Request{Op: "execute", Silent: true, NoInput: true, Code: code}
		if _, err := mb.agent.Request(ctx, warmChannel, prime); err != nil {
			return nil, m.failed(mb, err)
		}
	}
	return mb, nil
}

// settle makes a machine one of its own and sees that it answers.
func (m *Manager) settle(ctx context.Context, mb *member) (*member, error) {
	if err := mb.reseed(ctx, nil); err != nil {
		return nil, m.failed(mb, err)
	}
	if err := mb.agent.Ping(ctx); err != nil {
		return nil, m.failed(mb, err)
	}
	if s, ok := mb.machine.(settler); ok {
		if err := s.Settle(ctx); err != nil {
			return nil, m.failed(mb, err)
		}
	}
	return mb, nil
}

func (m *Manager) newMember(machine Machine, language string) *member {
	r, w := machine.Wire()
	sink := newRouter(&m.count, warmChannel+1)
	return &member{machine: machine, language: language, router: sink, agent: agent.NewClient(r, w, sink)}
}

// reseed gives the machine randomness and an environment of its own. Its name
// is the host's affair.
func (m *member) reseed(ctx context.Context, env map[string]string) error {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return m.agent.Reseed(ctx, agent.Reseed{Seed: hex.EncodeToString(b[:]), Env: env})
}

// failed destroys a member that could not be made and returns why, with the
// machine's own reason when it has ended.
func (m *Manager) failed(mb *member, err error) error {
	select {
	case <-mb.machine.Done():
		_, detail := mb.machine.End()
		m.log.Warn("a sandbox ended while it was made", "language", mb.language, "detail", detail)
	default:
	}
	m.discard(mb)
	return err
}

// discard destroys a member.
func (m *Manager) discard(mb *member) {
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
