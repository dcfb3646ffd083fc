package noderouter

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Templates are in the blob store, if the cluster has one, and on the nodes that have used them.
// Any node answers for those in the blob store. A node answers for its builds, its pools, and the
// templates that only it has.

// templateRouter sends requests about templates to nodes.
type templateRouter struct{ *Router }

// stored returns the templates in the blob store: all of the tenant, or the one with a name. shared
// is false without a blob store, and with a node of an earlier version.
func (r templateRouter) stored(
	ctx context.Context, who noderpc.Principal, name string,
) (all []protocol.Template, shared bool, err error) {
	var l protocol.TemplateList
	err = r.callAny(ctx, who, protocol.OpTemplateStored, protocol.TemplateRef{Name: name}, &l)
	if fault.Is(err, fault.Unsupported) {
		return nil, false, nil
	}
	return l.Templates, err == nil, err
}

// listTemplates implements mergeFunc.
func listTemplates(
	r *Router, ctx context.Context, who noderpc.Principal, _ json.RawMessage,
) (json.RawMessage, error) {
	return templateRouter{r}.list(ctx, who)
}

// list lists the templates of all nodes and those in the blob store. The nodes answer first: a
// template that is stored meanwhile is then found twice, but is never missing.
func (r templateRouter) list(ctx context.Context, who noderpc.Principal) (json.RawMessage, error) {
	answers, missing, err := survey(ctx, r.Router, who, protocol.OpTemplateList, struct{}{})
	if err != nil {
		return nil, err
	}
	all, shared, err := r.stored(ctx, who, "")
	if err != nil {
		return nil, err
	}
	if all == nil {
		all = []protocol.Template{}
	}
	for _, a := range answers {
		for _, t := range decode[protocol.TemplateList](a.raw).Templates {
			i := slices.IndexFunc(all, func(x protocol.Template) bool { return x.Name == t.Name })
			switch {
			case i >= 0:
				joinTemplate(&all[i], t)
			case !t.Stored || !shared: // a stored one that is not in the store was deleted
				all = append(all, t)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b protocol.Template) int {
		return cmp.Compare(a.Name, b.Name)
	})
	out, err := json.Marshal(protocol.TemplateList{Templates: all, Missing: missing})
	return out, fault.Wrap(fault.Internal, "noderouter.templates", err)
}

// joinTemplate adds to a template what a node knows of it. A node may still have an earlier
// definition with the same name.
func joinTemplate(t *protocol.Template, node protocol.Template) {
	if node.CreatedMS != t.CreatedMS {
		return
	}
	t.Ready += node.Ready
	t.Size += node.Size
	known := map[string]int{"failed": 1, "ready": 2}
	if known[node.State] > known[t.State] {
		t.State, t.Error, t.Log = node.State, node.Error, cmp.Or(node.Log, t.Log)
	}
	t.Log = cmp.Or(t.Log, node.Log)
}

// find returns a template and the nodes that have it. Without a blob store these nodes alone can use
// it.
func (r templateRouter) find(
	ctx context.Context, who noderpc.Principal, name string,
) (t protocol.Template, owners []answer, err error) {
	ref := protocol.TemplateRef{Name: name}
	answers, err := r.owners(ctx, who, protocol.OpTemplateGet, ref)
	stored, shared, serr := r.stored(ctx, who, name)
	if serr != nil && len(answers) == 0 {
		return t, nil, serr
	}
	// Without the blob store the nodes that have the template can use it.
	if len(stored) > 0 {
		t = stored[0]
		for _, a := range answers {
			one := decode[protocol.Template](a.raw)
			if joinTemplate(&t, one); one.CreatedMS == t.CreatedMS {
				owners = append(owners, a)
			}
		}
		return t, owners, nil
	}
	for _, a := range answers {
		one := decode[protocol.Template](a.raw)
		switch {
		case one.Stored && shared: // it was deleted
		case len(owners) == 0:
			t, owners = one, append(owners, a)
		default:
			joinTemplate(&t, one)
			owners = append(owners, a)
		}
	}
	switch {
	case len(owners) > 0:
		return t, owners, nil
	case err == nil:
		err = fault.New(fault.NotFound, "noderouter.template", "there is no such template")
	}
	return t, nil, err
}

// get returns a template with the output of its build.
func (r templateRouter) get(
	ctx context.Context, who noderpc.Principal, _ protocol.Operation, params json.RawMessage,
) (json.RawMessage, error) {
	t, _, err := r.find(ctx, who, decode[protocol.TemplateRef](params).Name)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(t)
	return out, fault.Wrap(fault.Internal, "noderouter.template", err)
}

// remove deletes a template on all nodes and in the blob store. A node that does not answer removes
// its copy later.
func (r templateRouter) remove(
	ctx context.Context, who noderpc.Principal, row protocol.Operation, params json.RawMessage,
) (json.RawMessage, error) {
	ref := decode[protocol.TemplateRef](params)
	stored, _, err := r.stored(ctx, who, ref.Name)
	if err != nil {
		return nil, err
	}
	if len(stored) == 0 {
		return r.callOwners(ctx, who, row, params)
	}
	owners, err := r.owners(ctx, who, row.Name, ref)
	if len(owners) > 0 {
		return owners[0].raw, nil // this node has removed it from the store
	}
	return nil, err
}
