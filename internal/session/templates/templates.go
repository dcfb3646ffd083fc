// Package templates answers the requests for the templates that users have made. In a cluster with
// a blob store each node has all of them: it fetches a template when a session needs it.
package templates

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Quotas counts templates in the blob store whose node is gone. *admission.Controller implements
// it.
type Quotas interface {
	// ReportTemplate makes a template with a name count until a time also after the end of this node.
	// The zero time ends that.
	ReportTemplate(ctx context.Context, h admission.Holder, name string, until time.Time,
		bytes int64) error
}

// Moved counts uploads and fetches that have ended.
type Moved interface {
	TemplateUploaded(err error)
	TemplateFetched(err error)
}

// Config has the settings of Templates. All are required, except those for Shared.
type Config struct {
	Manager *warm.Manager
	// Shared and Builds are the blob store; nil means that there is none. Quotas and Moved are
	// required with them.
	Shared Shared
	Builds Builds
	Quotas Quotas
	Moved  Moved
	// Wait bounds how long a request waits for a template that is fetched.
	Wait time.Duration
	// Context ends with the node. Go starts what the node waits for at its end.
	Context context.Context
	Go      func(func())
	Log     *slog.Logger
}

// Templates are the templates that users have made.
type Templates struct {
	cfg Config
	m   *warm.Manager
	// turns bounds how many templates are fetched at a time. uploads has a value during an upload.
	turns, uploads chan struct{}

	mu      sync.Mutex // guards all below; a leaf
	fetches map[string]*fetch
	// due has the keys of the templates whose builds Shared may lack, and when they are uploaded.
	due map[string]time.Time
}

// New returns the templates that a manager has.
func New(cfg Config) *Templates {
	t := &Templates{
		cfg: cfg, m: cfg.Manager, turns: make(chan struct{}, maxFetches),
		uploads: make(chan struct{}, 1), fetches: map[string]*fetch{},
		due: map[string]time.Time{},
	}
	if cfg.Shared != nil {
		for _, one := range cfg.Manager.Users() {
			t.due[one.Key()] = time.Time{}
		}
	}
	return t
}

// Store makes a template from a tar. Its snapshot is made later, in the background.
// It replaces the tenant's template of that name.
func (t *Templates) Store(ctx context.Context, p noderpc.Principal, name string,
	tar io.Reader,
) (protocol.Template, error) {
	made, err := t.m.Store(ctx, p.Tenant, p.Subject, name, tar)
	if err != nil {
		return protocol.Template{}, err
	}
	t.reportUse(ctx, made.Def(), time.Now().Add(forever))
	return made.View(false), nil
}

// Unstored returns how many templates only this node has.
func (t *Templates) Unstored() (n int) {
	for _, one := range t.m.Users() {
		if one.Def().Mark().Key == "" {
			n++
		}
	}
	return n
}

// List returns a tenant's templates on this node, sorted by name.
func (t *Templates) List(p noderpc.Principal) protocol.TemplateList {
	l := protocol.TemplateList{Templates: []protocol.Template{}}
	for _, one := range t.m.List(p.Tenant) {
		l.Templates = append(l.Templates, one.View(false))
	}
	return l
}

// Get returns a tenant's template on this node with the output of its build.
func (t *Templates) Get(p noderpc.Principal, name string) (protocol.Template, error) {
	one, err := t.m.Find(protocol.OpTemplateGet, "name", p.Tenant, name)
	if err != nil {
		return protocol.Template{}, err
	}
	return one.View(true), nil
}

// Delete removes a tenant's template, also from Shared. Its sessions continue.
func (t *Templates) Delete(ctx context.Context, p noderpc.Principal, name string) error {
	const op = protocol.OpTemplateDelete
	if t.cfg.Shared == nil {
		return t.m.Delete(op, p.Tenant, name)
	}
	found, ferr := t.cfg.Shared.Find(ctx, p.Tenant, name)
	if ferr != nil && !fault.Is(ferr, fault.NotFound) {
		return ferr
	}
	if ferr == nil {
		if err := t.cfg.Shared.Remove(ctx, p.Tenant, name); err != nil {
			return err
		}
		t.reportUse(ctx, found.Def, time.Time{})
	}
	own, err := t.m.Find(op, "name", p.Tenant, name)
	if err != nil { // it is not here
		return ferr
	}
	if err := t.m.Delete(op, p.Tenant, name); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if own.Def().Mark().Key == "" {
		return nil
	}
	return ferr // another node has deleted it before
}

// reportUse reports until when a template in Shared counts for quotas without this node.
func (t *Templates) reportUse(ctx context.Context, d *warm.TemplateDef, until time.Time) {
	if t.cfg.Shared == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	h := admission.Holder{Tenant: d.Tenant}
	// Verify reports it again.
	if err := t.cfg.Quotas.ReportTemplate(ctx, h, d.Name, until, d.Bytes); err != nil {
		t.cfg.Log.Warn("a template may not count for its quotas when this node ends", "template",
			d.Tenant+"/"+d.Name, "error", err)
	}
}
