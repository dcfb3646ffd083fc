package noderouter

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/notebook"
)

// notebooks lists the stored notebooks of all nodes. A session that has moved has versions of a
// notebook on several nodes.
func (r *Router) notebooks(ctx context.Context, who noderpc.Principal, params json.RawMessage) (
	json.RawMessage, error,
) {
	answers, missing, err := survey(
		ctx, r, who, protocol.OpNotebookList, decode[notebook.Query](params),
	)
	if err != nil {
		return nil, err
	}
	all := []notebook.Notebook{}
	for _, a := range answers {
		var l notebook.List
		if err := json.Unmarshal(a.raw, &l); err != nil {
			return nil, err
		}
		for _, n := range l.Notebooks {
			i := slices.IndexFunc(all, func(x notebook.Notebook) bool { return x.ID == n.ID })
			if i < 0 {
				all = append(all, n)
				continue
			}
			n.Versions += all[i].Versions
			if n.SavedMS < all[i].SavedMS {
				n.SavedMS, n.Bytes, n.Title = all[i].SavedMS, all[i].Bytes, all[i].Title
			}
			all[i] = n
		}
	}
	slices.SortFunc(all, func(a, b notebook.Notebook) int {
		return cmp.Or(cmp.Compare(b.SavedMS, a.SavedMS), cmp.Compare(a.ID, b.ID))
	})
	out, err := json.Marshal(notebook.List{Notebooks: all, Missing: missing})
	return out, fault.Wrap(fault.Internal, "noderouter.merge", err)
}

// notebookVersions lists the versions of a notebook on all nodes.
func (r *Router) notebookVersions(
	ctx context.Context, who noderpc.Principal, params json.RawMessage,
) (json.RawMessage, error) {
	owners, err := r.owners(ctx, who, protocol.OpNotebookVersions, decode[notebook.Ref](params))
	if len(owners) == 0 || err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	var all notebook.Versions
	for _, a := range owners {
		var l notebook.Versions
		if err := json.Unmarshal(a.raw, &l); err != nil {
			return nil, fault.Wrap(fault.Malformed, "noderouter.merge", err)
		}
		all.Versions = append(all.Versions, l.Versions...)
	}
	slices.SortFunc(all.Versions, func(a, b notebook.Version) int {
		return cmp.Or(cmp.Compare(b.SavedMS, a.SavedMS), cmp.Compare(a.ID, b.ID))
	})
	out, err := json.Marshal(all)
	return out, fault.Wrap(fault.Internal, "noderouter.merge", err)
}
