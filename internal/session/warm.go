package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/session/buildnetwork"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/replica"
	"github.com/sandgate/sandgate/internal/session/request"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// Provider provides the sandboxes of new sessions. Package warm implements it.
type Provider interface {
	// Claim returns a sandbox of a template that is ready.
	Claim(ctx context.Context, t *warm.Template, size warm.Sizing) (*warm.Instance, error)
	// Discard destroys a sandbox, which may have no machine.
	Discard(i *warm.Instance)
}

// newWarm returns the templates and pools of a manager.
func newWarm(m *Manager) (*warm.Manager, error) {
	c := m.cfg
	return warm.New(warm.Config{
		Backend: c.Backend, DataDir: c.DataDir, Languages: c.Languages,
		DefaultLanguage: c.DefaultLanguage(), Stored: replica.OfWarm(c.SharedBlobs()),
		Limits: c.Limits, Pools: c.Pools, Parallel: c.PoolParallel,
		PoolMemory: c.PoolMemory, Shared: c.Tenants.Shared,
		ClaimWait: c.ClaimWait,
		BootLimit: c.BootLimit, BuildLimit: c.BuildLimit, MaxTemplates: c.MaxTemplates,
		TemplateBytes: c.TemplateBytes,
		Images:        c.Images, Unpacker: c.Unpacker,
		Host: warmHost{m}, Observer: warmHost{m}, Log: c.Logger,
	})
}

// newRequests returns the checker of requests for a manager.
func newRequests(m *Manager) *request.Checker {
	c := m.cfg
	return request.New(request.Config{
		Languages: c.Languages, DefaultLanguage: c.DefaultLanguage(), Templates: m.warm,
		Egress: c.Egress, Limits: c.Limits, MaxLimits: c.MaxLimits,
		Lifetime: c.Lifetime, MaxLifetime: c.MaxLifetime, DeleteAfter: c.DeleteAfter,
		PauseAfter:     c.PauseAfter,
		HibernateAfter: c.HibernateAfter, MaxIdle: c.MaxIdle,
		Hibernates: c.Backend.Capabilities().Checkpoint,
	})
}

// warmHost adapts a Manager to package warm.
type warmHost struct{ m *Manager }

// CheckSpec implements warm.Host.
func (h warmHost) CheckSpec(tenant string, s *protocol.TemplateSpec) error {
	return h.m.requests.Template(tenant, s)
}

// MayStore implements warm.Host.
func (h warmHost) MayStore(name, subject string) error {
	return h.m.admission.CheckAll(h.m.ctx, "template.build",
		admission.ForStorage(admission.Holder{Tenant: name, Subject: subject}))
}

// MemoryShort implements warm.Host.
func (h warmHost) MemoryShort(need int64) bool { return h.m.cfg.MemoryShort(need) }

// NewSink implements warm.Host.
func (h warmHost) NewSink() warm.Sink {
	return channel.NewRouter(h.m.stats, warm.KernelChannel, warm.KernelChannel+1)
}

// Claimed implements warm.Observer.
func (h warmHost) Claimed(language, source string, took time.Duration) {
	h.m.stats.Claimed(language, source, took)
}

// Restored implements warm.Observer.
func (h warmHost) Restored(ok bool) {
	if ok {
		h.m.stats.Restores.Add(1)
	} else {
		h.m.stats.RestoresFailed.Add(1)
	}
}

// Booted implements warm.Observer.
func (h warmHost) Booted() { h.m.stats.ColdBoots.Add(1) }

// KernelStarted implements warm.Observer.
func (h warmHost) KernelStarted() { h.m.stats.KernelsStarted.Add(1) }

// Built implements warm.Observer.
func (h warmHost) Built(tenant, template string, err error) {
	h.m.emit(event.Built(tenant, template, err))
	h.m.templates.Built(tenant, template)
}

// instance returns the session's sandbox as package warm knows it.
func (s *Session) instance() *warm.Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &warm.Instance{
		Machine: s.machine, Agent: s.agent, Sink: s.channels.Router(),
		Layout: s.spec.Layout,
	}
}

// OpenNetwork implements warm.Host.
func (h warmHost) OpenNetwork(ctx context.Context, agent *client.Client,
	def *warm.TemplateDef,
) (*warm.BuildNetwork, error) {
	return buildnetwork.Open(ctx, h.m.egress, h.m.cfg.Egress, agent, def)
}
