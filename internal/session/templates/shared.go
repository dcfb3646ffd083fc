package templates

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Stored is a template in Shared.
type Stored struct {
	// Key changes with each definition.
	Key string
	Def *warm.TemplateDef
	// Ready reports that a node has built it. Error is why the last build failed.
	Ready bool
	Error string
}

// Result is how a build has ended.
type Result struct {
	Error string `json:"error,omitempty"`
	// Log is the output of its commands.
	Log string `json:"log,omitempty"`
}

// Shared keeps the templates where all nodes of a cluster find them. A template is there completely
// or not at all. Errors of all methods: Unavailable if it cannot be reached.
type Shared interface {
	// Find returns a tenant's template. Errors: NotFound.
	Find(ctx context.Context, tenant, name string) (*Stored, error)
	// List returns a tenant's templates, sorted by name.
	List(ctx context.Context, tenant string) ([]*Stored, error)
	// Fetch writes a definition to a folder. Errors: NotFound; Host if it is damaged.
	Fetch(ctx context.Context, x *Stored, dir string) error
	// Remove removes a tenant's template with its builds.
	Remove(ctx context.Context, tenant, name string) error
}

// Builds keeps the builds of templates in Shared. Errors: NotFound if the template was deleted or
// replaced; Unavailable.
type Builds interface {
	// PutBuild stores a warm snapshot, unless it is there.
	PutBuild(ctx context.Context, d *warm.TemplateDef, b warm.Build) error
	// PutResult stores how a build has ended. A failure does not replace a success.
	PutResult(ctx context.Context, d *warm.TemplateDef, r Result) error
	// Result returns what PutResult has stored of a failure or of a success.
	Result(ctx context.Context, x *Stored, failure bool) (Result, error)
}

const (
	// maxFetches is how many templates are fetched at a time, each within fetchLimit.
	maxFetches = 2
	fetchLimit = 10 * time.Minute
	// lookLimit bounds the question for the current definition. Without an answer this node's one
	// counts.
	lookLimit = 3 * time.Second
	// uploadLimit bounds an upload. A failed one is tried again after uploadRetry.
	uploadLimit = time.Hour
	uploadRetry = 30 * time.Second
	// fetchRetry is when a client asks again for a template that is fetched.
	fetchRetry = 5
	// forever is how long a template counts for quotas if nobody deletes it.
	forever = 10 * 365 * 24 * time.Hour
)

// fetch is a template on its way to this node.
type fetch struct {
	done chan struct{} // closed at the end; guards err
	err  error
}

// Ensure brings the current definition of a tenant's template to this node. It does nothing if no
// node has the template. Errors: Unavailable if the template is not here and Shared does not answer;
// Exhausted if the fetch takes longer than Wait.
func (t *Templates) Ensure(ctx context.Context, tenant, name string) error {
	if t.cfg.Shared == nil || name == "" {
		return nil
	}
	local, lerr := t.m.Find("template.find", "template", tenant, name)
	x, err := t.look(ctx, tenant, name)
	switch {
	case fault.Is(err, fault.NotFound):
		return t.dropDeleted(local, lerr)
	case err != nil && lerr == nil:
		return nil
	case err != nil:
		return &fault.Error{
			Kind: fault.Unavailable, Op: "template.find", RetryAfter: fetchRetry, Err: err,
			Message: "this node does not have the template, and the blob store does not answer",
		}
	case lerr == nil && local.Def().Mark().Key == x.Key:
		return nil
	}
	return t.fetch(ctx, x)
}

func (t *Templates) look(ctx context.Context, tenant, name string) (*Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return t.cfg.Shared.Find(ctx, tenant, name)
}

// dropDeleted removes a template that was deleted on another node.
func (t *Templates) dropDeleted(local *warm.Template, err error) error {
	if err != nil || local.Def().Mark().Key == "" {
		return nil // only this node has it
	}
	t.cfg.Log.Info("removed a template that was deleted", "template", local.Key())
	d := local.Def()
	err = t.m.Delete("template.find", d.Tenant, d.Name)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// fetch brings a template to this node. Callers for the same template share one fetch, which
// continues without them.
func (t *Templates) fetch(ctx context.Context, x *Stored) error {
	at := x.Def.Tenant + "/" + x.Def.Name + "/" + x.Key
	t.mu.Lock()
	f := t.fetches[at]
	if f == nil {
		f = &fetch{done: make(chan struct{})}
		t.fetches[at] = f
		t.cfg.Go(func() {
			err := t.bring(x)
			t.cfg.Moved.TemplateFetched(err)
			if err != nil {
				t.cfg.Log.Warn("a template was not fetched", "template", at, "error", err)
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.fetches, at)
			f.err = err
			close(f.done)
		})
	}
	t.mu.Unlock()
	timer := time.NewTimer(t.cfg.Wait)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.err
	case <-timer.C:
		return &fault.Error{
			Kind: fault.Exhausted, Op: "template.fetch", Field: "template", RetryAfter: fetchRetry,
			Message: "the template is being fetched from the blob store",
		}
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "template.fetch", ctx.Err())
	}
}

func (t *Templates) bring(x *Stored) error {
	ctx, cancel := context.WithTimeout(t.cfg.Context, fetchLimit)
	defer cancel()
	select {
	case t.turns <- struct{}{}:
		defer func() { <-t.turns }()
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "template.fetch", ctx.Err())
	}
	return t.m.Import(x.Def.Tenant, x.Def.Name, x.Key, func(dir string) error {
		return t.cfg.Shared.Fetch(ctx, x, dir)
	})
}

// Stored returns the tenant's templates in Shared, sorted by name: all of them, or the one with a
// name, with the output of its build. Errors: Unsupported without Shared.
func (t *Templates) Stored(ctx context.Context, p noderpc.Principal, name string) (
	protocol.TemplateList, error,
) {
	out := protocol.TemplateList{Templates: []protocol.Template{}}
	if t.cfg.Shared == nil {
		return out, fault.New(fault.Unsupported, protocol.OpTemplateStored,
			"this node does not store templates")
	}
	all, err := []*Stored(nil), error(nil)
	if name == "" {
		all, err = t.cfg.Shared.List(ctx, p.Tenant)
	} else {
		var one *Stored
		one, err = t.cfg.Shared.Find(ctx, p.Tenant, name)
		if fault.Is(err, fault.NotFound) {
			return out, nil
		}
		all = []*Stored{one}
	}
	if err != nil {
		return out, err
	}
	for _, x := range all {
		v := x.Def.Outline()
		v.Stored, v.Error = true, x.Error
		switch {
		case x.Ready:
			v.State = warm.StateReady
		case x.Error != "":
			v.State = warm.StateFailed
		}
		if name != "" && (x.Ready || x.Error != "") {
			r, err := t.cfg.Builds.Result(ctx, x, !x.Ready)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return out, err
			}
			v.Log = r.Log
		}
		out.Templates = append(out.Templates, v)
	}
	return out, nil
}

// Built uploads the build of a template that has ended on this node, at the next Upload.
func (t *Templates) Built(tenant, name string) {
	if t.cfg.Shared == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due[tenant+"/"+name] = time.Time{}
}

// Upload stores in Shared what only this node has, in the background. The node calls it at each
// tick.
func (t *Templates) Upload(now time.Time) {
	if t.cfg.Shared == nil {
		return
	}
	select {
	case t.uploads <- struct{}{}:
	default:
		return
	}
	due := t.takeDue(now)
	if len(due) == 0 {
		<-t.uploads
		return
	}
	t.cfg.Go(func() {
		defer func() { <-t.uploads }()
		ctx, cancel := context.WithTimeout(t.cfg.Context, uploadLimit)
		defer cancel()
		t.retry(t.uploadKeys(ctx, due))
	})
}

// UploadAll stores in Shared what only this node has, until ctx ends. It returns how many templates
// only this node has then.
func (t *Templates) UploadAll(ctx context.Context) int {
	if t.cfg.Shared == nil {
		return t.Unstored()
	}
	select {
	case t.uploads <- struct{}{}:
	case <-ctx.Done():
		return t.Unstored()
	}
	defer func() { <-t.uploads }()
	t.retry(t.uploadKeys(ctx, t.takeDue(time.Now().Add(uploadRetry))))
	return t.Unstored()
}

// takeDue returns the keys of the templates that are uploaded at a time, sorted, and removes them.
func (t *Templates) takeDue(at time.Time) (due []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, from := range t.due {
		if !from.After(at) {
			due = append(due, key)
			delete(t.due, key)
		}
	}
	slices.Sort(due)
	return due
}

// retry makes templates due later.
func (t *Templates) retry(keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		if _, newer := t.due[key]; !newer {
			t.due[key] = time.Now().Add(uploadRetry)
		}
	}
}

// uploadKeys uploads the templates with some keys and their builds. It returns the keys to try again.
// uploads is held.
func (t *Templates) uploadKeys(ctx context.Context, keys []string) (again []string) {
	all := map[string]*warm.Template{}
	for _, one := range t.m.Users() {
		all[one.Key()] = one
	}
	for _, key := range keys {
		one := all[key]
		if one == nil {
			continue
		}
		err := t.uploadOne(ctx, one)
		if fault.Is(err, fault.NotFound) {
			continue // it was deleted or replaced meanwhile
		}
		t.cfg.Moved.TemplateUploaded(err)
		if err != nil {
			t.cfg.Log.Warn("a template was not stored", "template", key, "error", err)
			again = append(again, key)
		}
	}
	return again
}

func (t *Templates) uploadOne(ctx context.Context, one *warm.Template) error {
	d := one.Def()
	if d.Mark().Key == "" {
		_, err := t.cfg.Shared.Find(ctx, d.Tenant, d.Name)
		if err == nil {
			return nil // Ensure replaces this node's
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		if err := t.m.Share(ctx, one); err != nil {
			return err
		}
		t.reportUse(ctx, d, time.Now().Add(forever))
	}
	builds := one.Builds()
	for _, b := range builds {
		if err := t.cfg.Builds.PutBuild(ctx, d, b); err != nil {
			return err
		}
	}
	v := one.View(true)
	if v.State == warm.StateBuilding && len(builds) == 0 {
		return nil
	}
	return t.cfg.Builds.PutResult(ctx, d, Result{Error: v.Error, Log: v.Log})
}

// Verify removes the templates of this node that were deleted or replaced while it was away.
func (t *Templates) Verify(ctx context.Context) {
	all := map[string]*warm.Template{}
	for _, one := range t.m.Users() {
		all[one.Key()] = one
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		one := all[key]
		d := one.Def()
		x, err := t.look(ctx, d.Tenant, d.Name)
		switch {
		case fault.Is(err, fault.NotFound), err == nil && x.Key != d.Mark().Key:
			err = t.dropDeleted(one, nil)
		case err == nil && !d.Mark().Copy:
			t.reportUse(ctx, d, time.Now().Add(forever))
		}
		if err != nil {
			t.cfg.Log.Warn("a template was not compared with the blob store", "template", key,
				"error", err)
		}
	}
}
